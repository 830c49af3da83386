"""The `queen` command, also as `python -m queen`."""

import sys


def main() -> None:
    """Run the installed command. The SDK is installed without the packages that it needs."""
    try:
        from queen.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit(f"queen: the command needs {error.name}. Run: pip install 'queenmq[cli]'")
    run()


if __name__ == "__main__":
    main()
