"""An example of a package that extends Tidemark by entry points."""
