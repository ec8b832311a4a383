"""The plugins that ship with volcanoio, written as a third party writes them."""
