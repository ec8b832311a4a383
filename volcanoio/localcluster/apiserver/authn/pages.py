"""OpenID discovery: where those who trust the cluster find the keys of its service account tokens."""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.authn.keys import ALGORITHM
from volcanoio.localcluster.apiserver.authn.tokens import ISSUER, Tokens


class OpenIdPages:
    """A route for `/.well-known/openid-configuration` and `/openid/v1/jwks`."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer the two pages; None for any other request."""
        match request.path:
            case "/.well-known/openid-configuration":
                document = {
                    "issuer": ISSUER,
                    "jwks_uri": f"https://{request.headers.get('host', 'localhost')}/openid/v1/jwks",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": [ALGORITHM],
                }
                return ApiResponse(200, msgspec.json.encode(document))
            case "/openid/v1/jwks":
                body = msgspec.json.encode(self._tokens.key.public_set())
                return ApiResponse(200, body, content_type="application/jwk-set+json")
        return None
