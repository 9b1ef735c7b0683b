"""The example operations of the playground, executed on the data of the demo."""
