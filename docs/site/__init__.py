"""How docs/ becomes a site: diagrams drawn from the code's tables, and reference pages made from the product."""
