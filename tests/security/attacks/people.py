"""The people of the attacked server, inserted before it starts."""

from __future__ import annotations

from pymongo import MongoClient

from bench.session_data import Row, insert_owner, insert_people
from tests.security.attacks.bystander import FRIEND, USER
from tests.security.attacks.world import MEMBERS

ATTACKERS = [f"attacker{number:02}" for number in range(20)]

_SESSIONS = 500
"""Sessions that each attacker has from the beginning."""


def insert_all(mongo_url: str, database: str, attackers: list[str]) -> None:
    """Insert all people, and the sessions of the attackers in use."""
    with MongoClient[Row](mongo_url) as mongo:
        owners = [insert_owner(mongo[database], attacker, _SESSIONS) for attacker in attackers]
        insert_people(mongo[database], [USER, FRIEND, *attackers, *owners[0].peers, *MEMBERS])
