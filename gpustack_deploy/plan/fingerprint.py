"""Hashes of what is rendered: equal exactly when what is declared renders equal (D3)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.template import render_template


def role_fingerprint(declaration: RoleDeclaration) -> str:
    """Return the role's fingerprint: everything rendered but seat, names, group, token, owner."""
    return template_fingerprint(render_template(declaration))


def template_fingerprint(template: Mapping[str, Any]) -> str:
    """Return the hash of a member template's canonical JSON."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
