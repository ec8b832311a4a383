"""Operations on resources, as in Kubernetes' `pkg/registry` and apiserver `registry`.

`dispatch` maps a method and path to an operation: `reader` (get, list, watch), `writer` (create, update), `patcher`,
`deleter`, `scale` and `subresources`. `kinds` has the strategy of each built-in kind. It imports storage, schema,
admission, apply and patches; not http. Start with `dispatch`, then `writer`.
"""
