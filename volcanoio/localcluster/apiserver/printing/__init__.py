"""How objects look in `kubectl get`: the Table the server prints for clients that ask for one."""
