"""`python -m minidyn` is `minidyn`."""

from minidyn.app.cli.main import main

if __name__ == "__main__":
    main()
