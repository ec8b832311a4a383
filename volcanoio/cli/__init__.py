"""The commands `volcanoio` and `vcctl`.

`main` and `vcctl` declare commands and options and import nothing heavy; every other module implements commands and is
imported when one of them runs. May import every other package. Start with `main`. Commands about a cluster share
`output` and `connection`: those of `look` read, those of `act` change something.
"""
