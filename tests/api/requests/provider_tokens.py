"""Tokens in the form in which identity providers issue them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

Claims = dict[str, Any]

PHOTO = "https://images.example.org/ann.png"
_NOW = int(time.time())
"""Time at which the tokens below were issued. `reissue` moves it."""


@dataclass(frozen=True)
class ProviderToken:
    """A token of a user called Ann, or without a name.

    `recipe`: heading of the recipe in docs/auth.md, and which of its blocks of settings applies. `promotion`: claims
    that give the user the role SERVICE. `foreign`: changes after which the token is not for this application.
    """

    recipe: tuple[str, int]
    algorithm: str
    header: Claims
    claims: Claims
    promotion: Claims
    foreign: tuple[Claims, ...]
    name: str | None = "Ann Lee"
    picture: str | None = PHOTO


def reissue(claims: Claims) -> Claims:
    """Return the claims of a token that is issued now."""
    passed = int(time.time()) - _NOW
    return {name: value + passed if name in ("iat", "nbf", "exp") else value for name, value in claims.items()}


def _times(seconds: int) -> Claims:
    return {"iat": _NOW, "exp": _NOW + seconds}


_AUTH0 = {
    "https://chat.example.org/name": "Ann Lee",
    "https://chat.example.org/picture": PHOTO,
    "https://chat.example.org/roles": ["Billing manager"],
    "iss": "https://example.eu.auth0.com/",
    "sub": "auth0|507f1f77bcf86cd799439020",
    "aud": ["https://chat.example.org/api", "https://example.eu.auth0.com/userinfo"],
    **_times(86_400),
    "scope": "openid profile email",
}
_AUTH0_FOREIGN = (
    # An ID token, a token for another API, another tenant.
    {"aud": "Zk8example0clientid"},
    {"aud": ["https://billing.example.org/api", "https://example.eu.auth0.com/userinfo"]},
    {"iss": "https://other.eu.auth0.com/"},
)

_CLERK_SESSION = {
    "azp": "https://chat.example.org",
    **_times(60),
    "fva": [3, -1],
    "iss": "https://clerk.example.org",
    "nbf": _NOW - 10,
    "sid": "sess_2exampleSessionOfAnn000000",
    "sts": "active",
    "sub": "user_2NexampleUserCalledAnn0000",
    "v": 2,
    "pla": "u:free",
    "o": {"id": "org_2example", "rol": "admin", "slg": "acme"},
    "name": "Ann Lee",
    "picture": PHOTO,
    "role": None,
}
_CLERK_TEMPLATE = {
    "aud": "confab",
    "azp": "https://chat.example.org",
    **_times(600),
    "iss": "https://clerk.example.org",
    "jti": "0a1b2c3d4e5f6a7b8c9d",
    "name": "Ann Lee",
    "nbf": _NOW - 5,
    "picture": PHOTO,
    "role": None,
    "sub": "user_2NexampleUserCalledAnn0001",
}

_SUPABASE = {
    "iss": "https://abcdefghijklmnopqrst.supabase.co/auth/v1",
    "sub": "8f5c2d1e-7a3b-4c6d-9e0f-1a2b3c4d5e6f",
    "aud": "authenticated",
    **_times(3600),
    "email": "ann@example.org",
    "phone": "",
    "app_metadata": {"provider": "github", "providers": ["github"]},
    "user_metadata": {
        "avatar_url": PHOTO,
        "email": "ann@example.org",
        "email_verified": True,
        "full_name": "Ann Lee",
        "iss": "https://api.github.com",
        "preferred_username": "ann",
        "provider_id": "4711",
        # Users can write this.
        "role": "admin",
        "sub": "4711",
        "user_name": "ann",
    },
    "role": "authenticated",
    "aal": "aal1",
    "amr": [{"method": "oauth", "timestamp": _NOW}],
    "session_id": "3c1d5e7f-0000-4000-8000-9a8b7c6d5e4f",
    "is_anonymous": False,
}
_SUPABASE_PROMOTION = {"app_metadata": {"provider": "github", "providers": ["github"], "role": "service"}}
_SUPABASE_FOREIGN = (
    {"iss": "https://zyxwvutsrqponmlkjihg.supabase.co/auth/v1"},
    # The keys "anon" and "service_role".
    {"iss": "supabase", "ref": "abcdefghijklmnopqrst", "role": "service_role", "sub": None, "aud": None},
)

_FIREBASE = {
    "name": "Ann Lee",
    "picture": PHOTO,
    "iss": "https://securetoken.google.com/chat-example",
    "aud": "chat-example",
    "auth_time": _NOW - 100,
    "user_id": "kPz3exampleUidOfAnn123456789",
    "sub": "kPz3exampleUidOfAnn123456789",
    **_times(3600),
    "email": "ann@example.org",
    "email_verified": True,
    "firebase": {
        "identities": {"google.com": ["104711000000000000000"], "email": ["ann@example.org"]},
        "sign_in_provider": "google.com",
    },
}

_COGNITO_POOL = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEfGhI"
_COGNITO_ID = {
    "sub": "c3d4a8e2-f061-7012-3456-789abcdef012",
    "cognito:groups": ["eu-central-1_AbCdEfGhI_Google", "editors"],
    "email_verified": True,
    "iss": _COGNITO_POOL,
    "cognito:username": "google_104711000000000000000",
    "origin_jti": "11111111-2222-4333-8444-555555555555",
    "aud": "1example23456789",
    "event_id": "66666666-7777-4888-8999-000000000000",
    "token_use": "id",
    "auth_time": _NOW - 100,
    "name": "Ann Lee",
    "picture": PHOTO,
    "email": "ann@example.org",
    "jti": "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
    **_times(3600),
}
_COGNITO_ACCESS = {
    "sub": "c3d4a8e2-f061-7012-3456-789abcdef013",
    "cognito:groups": ["editors"],
    "iss": _COGNITO_POOL,
    "version": 2,
    "client_id": "1example23456789",
    "origin_jti": "11111111-2222-4333-8444-555555555555",
    "event_id": "66666666-7777-4888-8999-000000000000",
    "token_use": "access",
    "scope": "openid profile email",
    "auth_time": _NOW - 100,
    "jti": "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
    "username": "google_104711000000000000000",
    **_times(3600),
}

_KEYCLOAK = {
    **_times(300),
    "auth_time": _NOW - 100,
    "jti": "onrtac:5d7f9b1c-1111-4222-8333-444455556666",
    "iss": "https://id.example.org/realms/chat",
    "aud": ["confab", "account"],
    "sub": "0c5e7f1a-2b3d-4c5e-8f90-123456789abc",
    "typ": "Bearer",
    "azp": "chat-web",
    "sid": "77777777-8888-4999-8aaa-bbbbbbbbbbbb",
    "acr": "1",
    "allowed-origins": ["https://chat.example.org"],
    "realm_access": {"roles": ["default-roles-chat", "offline_access", "uma_authorization"]},
    "resource_access": {"account": {"roles": ["manage-account", "view-profile"]}},
    "scope": "openid profile email",
    "email_verified": True,
    "name": "Ann Lee",
    "preferred_username": "ann",
    "given_name": "Ann",
    "family_name": "Lee",
    "email": "ann@example.org",
}
_KEYCLOAK_FOREIGN = ({"iss": "https://id.example.org/realms/master"},)

TOKENS = {
    "Auth0": ProviderToken(
        ("Auth0", 0),
        "RS256",
        {"typ": "JWT"},
        {**_AUTH0, "azp": "Zk8example0clientid"},
        {"https://chat.example.org/roles": ["Billing manager", "service"]},
        _AUTH0_FOREIGN,
    ),
    "Auth0, profile of RFC 9068": ProviderToken(
        ("Auth0", 0),
        "RS256",
        {"typ": "at+jwt"},
        {**_AUTH0, "sub": "google-oauth2|104711", "client_id": "Zk8example0clientid", "jti": "73WakrfVbNJB"},
        {"https://chat.example.org/roles": ["service"]},
        _AUTH0_FOREIGN,
    ),
    "Clerk, session token": ProviderToken(
        ("Clerk", 0),
        "RS256",
        {"typ": "JWT", "cat": "cl_B7d4PD111AAA"},
        _CLERK_SESSION,
        {"role": "service"},
        # Another site, a native application, another instance.
        ({"azp": "https://evil.example"}, {"azp": None}, {"iss": "https://clerk.other.example"}),
    ),
    "Clerk, template": ProviderToken(
        ("Clerk", 1),
        "RS256",
        {"typ": "JWT", "cat": "cl_B7d4PD222AAA"},
        _CLERK_TEMPLATE,
        {"role": "service"},
        ({"aud": "other"}, {"aud": None}, {"iss": "https://clerk.other.example"}),
    ),
    "Supabase, signing key": ProviderToken(
        ("Supabase", 0), "ES256", {"typ": "JWT"}, _SUPABASE, _SUPABASE_PROMOTION, _SUPABASE_FOREIGN
    ),
    "Supabase, legacy secret": ProviderToken(
        ("Supabase", 1),
        "HS256",
        {"typ": "JWT"},
        {**_SUPABASE, "sub": "8f5c2d1e-7a3b-4c6d-9e0f-1a2b3c4d5e70"},
        _SUPABASE_PROMOTION,
        _SUPABASE_FOREIGN,
    ),
    "Firebase": ProviderToken(
        ("Firebase", 0),
        "RS256",
        {"typ": "JWT"},
        _FIREBASE,
        {"role": "service"},
        # Another project, and a session cookie.
        (
            {"iss": "https://securetoken.google.com/evil", "aud": "evil"},
            {"iss": "https://session.firebase.google.com/chat-example"},
        ),
    ),
    "Cognito, ID token": ProviderToken(
        ("Cognito", 0),
        "RS256",
        {},
        _COGNITO_ID,
        {"cognito:groups": ["editors", "service"]},
        ({"aud": "other0client"}, {"iss": f"{_COGNITO_POOL}J"}, {"aud": None, "client_id": "1example23456789"}),
    ),
    "Cognito, access token": ProviderToken(
        ("Cognito", 1),
        "RS256",
        {},
        _COGNITO_ACCESS,
        {"cognito:groups": ["service"]},
        ({"client_id": "other0client"}, {"iss": f"{_COGNITO_POOL}J"}, {"client_id": None, "aud": "1example23456789"}),
        name=None,
        picture=None,
    ),
    "Keycloak, audience mapper": ProviderToken(
        ("Keycloak", 0),
        "PS256",
        {"typ": "JWT"},
        _KEYCLOAK,
        {"resource_access": {"account": {"roles": ["view-profile"]}, "confab": {"roles": ["service"]}}},
        (*_KEYCLOAK_FOREIGN, {"aud": "account"}, {"aud": None}),
        picture=None,
    ),
    "Keycloak, authorised party": ProviderToken(
        ("Keycloak", 1),
        "EdDSA",
        {"typ": "JWT"},
        {**_KEYCLOAK, "aud": "account", "sub": "0c5e7f1a-2b3d-4c5e-8f90-123456789abd"},
        {"realm_access": {"roles": ["default-roles-chat", "service"]}},
        (*_KEYCLOAK_FOREIGN, {"azp": "other-client"}),
        picture=None,
    ),
}
"""Tokens by provider and kind. In `foreign` and `promotion`, None removes a claim."""
