"""Print the manifests that the Helm chart makes, as deploy/kubernetes/confab.yaml has them.

Needs helm-python-sdk, which contains Helm. Use: python deploy/render.py [VALUES.yaml]
"""

from __future__ import annotations

import sys
from pathlib import Path

import helm_python
import yaml

DEPLOY = Path(__file__).parent
CHART = DEPLOY / "helm" / "confab"
HEAD = "# Made from deploy/helm/confab and deploy/kubernetes/values.yaml by `make manifests`.\n"


def main() -> None:
    """Print one document for each object, in the order of the templates."""
    values_file = Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY / "kubernetes" / "values.yaml"
    values = yaml.safe_load(values_file.read_text(encoding="utf-8"))
    with helm_python.Chart.load(str(CHART)) as chart:
        rendered = chart.render(values, name="confab", namespace="confab")
    texts = (text.strip() for path, text in sorted(rendered.items()) if not path.endswith(".tpl"))
    print(HEAD + "---\n" + "\n---\n".join(text for text in texts if text))


if __name__ == "__main__":
    main()
