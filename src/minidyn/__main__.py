"""`python -m minidyn` is `minidyn`."""

from minidyn.cli import main

if __name__ == "__main__":
    main()
