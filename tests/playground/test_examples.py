"""Every example of the playground is valid for the contract, and works on the data of the demo."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import graphql
import pytest

from server.cli.dev import development_settings
from server.settings import Settings
from tests.playground.examples import SOURCES, Example, examples, values
from tests.playground.runner import Playground, root_values, serving_demo

CONTRACT = Path(__file__).parents[2] / "docs" / "contract.graphql"
BUILT_IN = {"random", "inAnHour", "tomorrow", "yesterday", "aliceToken", "serviceToken", "adminToken"}


@pytest.fixture(scope="module")
async def playground(module_settings: Settings) -> AsyncIterator[Playground]:
    names = ("mongo_url", "redis_url", "mongo_database", "redis_prefix")
    settings = development_settings(**{name: getattr(module_settings, name) for name in names})
    async with serving_demo(settings) as served:
        yield served


@pytest.fixture(scope="module")
def contract() -> graphql.GraphQLSchema:
    return graphql.build_schema(CONTRACT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
async def test_each_example_works_as_often_as_it_is_opened(playground: Playground, example: Example) -> None:
    for _ in range(2):
        data = root_values(await playground.open_and_execute(example))
        assert all(value is not None for value in data.values()), data


def test_examples_and_the_values_they_use_are_valid_for_the_contract(contract: graphql.GraphQLSchema) -> None:
    for example in (*examples(), *values().values()):
        assert graphql.validate(contract, graphql.parse(example.text)) == [], example.name
        operation = graphql.parse(example.text).definitions[0]
        assert isinstance(operation, graphql.OperationDefinitionNode)
        declared = {variable.variable.name.value for variable in operation.variable_definitions or ()}
        assert example.given("Variables").keys() <= declared, example.name


def test_every_root_field_of_the_contract_has_an_example(contract: graphql.GraphQLSchema) -> None:
    used: set[str] = set()
    for example in examples():
        operation = graphql.parse(example.text).definitions[0]
        assert isinstance(operation, graphql.OperationDefinitionNode)
        used |= {field.name.value for field in operation.selection_set.selections if hasattr(field, "name")}
    roots = (contract.query_type, contract.mutation_type, contract.subscription_type)
    assert {name for root in roots if root is not None for name in root.fields} - used == set()


def test_names_and_titles_are_used_once_and_every_value_is_used() -> None:
    names = [example.name for example in examples()]
    assert sorted(set(names)) == sorted(names)
    for area in {example.area for example in examples()}:
        titles = [example.title for example in examples() if example.area == area]
        assert len(set(titles)) == len(titles)
    needed = set().union(*(example.needed for example in (*examples(), *values().values())))
    assert needed == values().keys() | BUILT_IN


def test_lines_of_examples_are_at_most_120_columns_wide() -> None:
    for path in SOURCES.rglob("*.graphql"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if len(line) > 120] == []
        assert len(lines) <= 400
