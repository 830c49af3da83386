"""The files in deploy/: image, compose, Helm chart, manifests, units, alert rules, proxies."""
