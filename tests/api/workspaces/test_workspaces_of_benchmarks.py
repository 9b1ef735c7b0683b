"""The workspace that the benchmark writes to MongoDB is one as the API makes it."""

from __future__ import annotations

from bench.workspace_data import insert_workspace
from tests.api.client import Api

ALL = """query ($id: ID!, $c: ID!) {
    workspace(id: $id) { memberCount members(first: 100) { edges { node { user { id displayName } } } }
        channels { edges { node { name memberCount } } } }
    followedChannels(workspaceId: $id) { edges { node { name } } }
    messages(conversationId: $c) { edges { node { seq authorName } } } }"""


async def test_members_of_an_inserted_workspace_follow_and_read_its_channels(api: Api) -> None:
    made = insert_workspace(api.database, members=5, channels=3, followers_of_small=2, history=4)
    for user, followed in ((made.members[1], 2), (made.members[4], 1)):
        found = await api.data(user, ALL, id=made.id, c=made.opened)
        assert found["workspace"]["memberCount"] == 5
        members = [edge["node"]["user"] for edge in found["workspace"]["members"]["edges"]]
        assert members == [{"id": name, "displayName": f"Person {name}"} for name in made.members]
        counts = [edge["node"]["memberCount"] for edge in found["workspace"]["channels"]["edges"]]
        assert counts == [5, 2, 0]
        assert len(found["followedChannels"]["edges"]) == followed
        assert [edge["node"]["seq"] for edge in found["messages"]["edges"]] == [1, 2, 3, 4]
    sent = await api.send(made.members[1], made.large)
    assert sent["message"]["seq"] == 1
