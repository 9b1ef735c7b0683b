"""The Helm chart, rendered with Helm: valid objects for all values, and the manifests that are made from it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deployment.compose_file import ROOT
from tests.deployment.helm_chart import (
    CHART,
    DEPLOY,
    KUBERNETES,
    ChartRefused,
    committed,
    lint,
    named,
    parse,
    pods,
    render,
)

pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this machine")

VERSIONS = ("1.30.0", "1.37.0")
"""The oldest version that the chart accepts, and a recent one."""

EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.org/confab", "digest": "sha256:" + "a" * 64, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "settings": {"CONFAB_MAX_BODY_BYTES": "1048576"},
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/confab"}],
    "server": {
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"pool": "chat"},
        "tolerations": [{"key": "chat", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    "worker": {
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"pool": "chat"},
        "tolerations": [{"key": "chat", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    "migrationJob": {"enabled": True},
    "serviceAccount": {"name": "chat", "annotations": {"a": "b"}},
    "service": {"annotations": {"a": "b"}},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"a": "b"}},
    "networkPolicy": {
        "databases": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "extraEgress": [{"ports": [{"port": 9000}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "sendToken": True},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True},
    },
}
NOTHING: dict[str, Any] = {
    "server": {"autoscaling": {"enabled": False}},
    "worker": {"enabled": False},
    "networkPolicy": {"enabled": False},
}


def rendered(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    return parse(render(folder / "values.yaml"))


def test_the_committed_manifests_are_those_of_the_chart() -> None:
    text = (KUBERNETES / "confab.yaml").read_text(encoding="utf-8")
    assert render(KUBERNETES / "values.yaml") == text, "run: make manifests"


def test_helm_finds_nothing_wrong() -> None:
    assert lint() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [{}, EVERYTHING, NOTHING], ids=["defaults", "everything", "nothing"])
def test_objects_are_valid_in_kubernetes(values: dict[str, Any], version: str, tmp_path: Path) -> None:
    manifests = rendered(values, tmp_path)
    checked = 0
    for manifest in manifests:
        if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(manifest, version, strict=True)
            checked += 1
    assert checked >= 5
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(names) == len(set(names))


def test_parts_that_are_off_are_not_there(tmp_path: Path) -> None:
    manifests = rendered(NOTHING, tmp_path)
    kinds = {each["kind"] for each in manifests}
    assert kinds == {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"}
    assert list(pods(manifests)) == ["confab-server"]
    assert named(manifests, "Deployment", "confab-server")["spec"]["replicas"] == 2
    settings = named(manifests, "ConfigMap", "confab")["data"]
    assert "CONFAB_WORKERS" not in settings and "CONFAB_MIGRATE" not in settings, "servers do all of the work"


def test_the_migration_job_takes_the_work_from_the_servers(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    assert named(manifests, "ConfigMap", "confab")["data"]["CONFAB_MIGRATE"] == "false"
    job = named(manifests, "Job", "confab-migration")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["confab", "migrate", "--run"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-upgrade"


def test_new_settings_replace_the_pods(tmp_path: Path) -> None:
    def checksums(address: str) -> list[str]:
        manifests = rendered({"settings": {"CONFAB_PUBLIC_URL": address}}, tmp_path)
        return [pod["metadata"]["annotations"]["checksum/settings"] for pod in pods(manifests).values()]

    first, second = checksums("https://a.example.org"), checksums("https://b.example.org")
    assert len(first) == 2 and not set(first) & set(second)


def test_prometheus_finds_the_metrics_and_gets_the_rules(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    (monitor,) = (each for each in manifests if each["kind"] == "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [each for each in manifests if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in found] == ["confab-metrics"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in found[0]["spec"]["ports"]]
    assert endpoint["authorization"]["credentials"] == {"name": "confab", "key": "CONFAB_METRICS_TOKEN"}
    # The alerts select this value of the label `job`.
    assert found[0]["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "confab"
    (rule,) = (each for each in manifests if each["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    dashboards = named(manifests, "ConfigMap", "confab-dashboards")["data"]
    files = {path.name: json.loads(path.read_text()) for path in (DEPLOY / "monitoring" / "dashboards").iterdir()}
    assert {name: json.loads(text) for name, text in dashboards.items()} == files


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"CONFAB_MAX_BODY_BYTES": 1048576}},
        {"settings": {"PUBLIC_URL": "https://chat.example.org"}},
        {"settings": {"CONFAB_PORT": "9000"}},
        {"servers": {"replicas": 3}},
        {"server": {"autoscaling": {"maxReplicas": 31}}},
        {"image": {"digest": "latest"}},
    ],
    ids=["number", "no setting", "setting of the chart", "unknown value", "too many servers", "no digest"],
)
def test_wrong_values_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ChartRefused, match=r"values don't meet the specifications|schema"):
        rendered(values, tmp_path)


def test_versions_of_the_chart_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["appVersion"], chart["version"]) == (version, version)
    assert pods(committed())["confab-server"]["spec"]["containers"][0]["image"] == f"confab:{version}"
