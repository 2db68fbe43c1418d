"""HTML pages with everything in them: they fetch nothing, and what anybody wrote into their data can do nothing.

Data reaches a page as JSON in which no tag can begin; a policy in the page allows its own script and style, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape

__all__ = ["data_json", "html_page"]


def html_page(title: str, style: str, script: str, body: str, data: str) -> str:
    """A whole page. ``title`` is escaped here; ``body`` must be HTML already, lines that each end; ``data`` the work of
    :func:`data_json`, which the script finds in the element ``data``."""
    return _PAGE.format(
        title=escape(title), style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), body=body,
        data=data,
    )  # fmt: skip


def data_json(data: object) -> str:
    """JSON that cannot end its element: every sign that means something to HTML is escaped."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{style_hash}'; script-src '{script_hash}'; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}<div id="tip" hidden></div>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
