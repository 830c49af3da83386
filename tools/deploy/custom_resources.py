"""Write the schemas of the chart's custom resources into tests/deploy/schemas (`make crds`)."""

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

import yaml

_SCHEMAS: Final = Path(__file__).parents[2] / "tests" / "deploy" / "schemas"
_DEFINITIONS: Final = (
    "github.com/kedacore/keda/v2@*/config/crd/bases/keda.sh_scaledobjects.yaml",
    "github.com/kedacore/keda/v2@*/config/crd/bases/keda.sh_triggerauthentications.yaml",
    "github.com/prometheus-operator/prometheus-operator@*/example/prometheus-operator-crd/"
    "monitoring.coreos.com_prometheusrules.yaml",
    "github.com/prometheus-operator/prometheus-operator@*/example/prometheus-operator-crd/"
    "monitoring.coreos.com_servicemonitors.yaml",
    "sigs.k8s.io/gateway-api@*/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
)


def without_descriptions(schema: Any) -> Any:  # noqa: ANN401 - of JSON
    """Remove texts, which are nine tenths of a definition. A property named so stays."""
    if isinstance(schema, list):
        return [without_descriptions(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_descriptions(value)
        for key, value in cast("dict[str, Any]", schema).items()
        if not (key == "description" and isinstance(value, str))
    }


def main() -> None:
    """Read the modules that `go mod download` left in the directory of the first argument."""
    modules = Path(sys.argv[1])
    for pattern in _DEFINITIONS:
        (path,) = modules.glob(pattern)
        definition = yaml.safe_load(path.read_text("utf-8"))["spec"]
        (version,) = (each for each in definition["versions"] if each["storage"])
        found = {
            "apiVersion": f"{definition['group']}/{version['name']}",
            "kind": definition["names"]["kind"],
            "schema": without_descriptions(version["schema"]["openAPIV3Schema"]),
        }
        text = json.dumps(found, indent=1) + "\n"
        (_SCHEMAS / f"{found['kind'].lower()}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
