"""Send requests to a server with the class page, as a grader and an instructor, and print who reached what.

Prints [[user, method, module of the handler, its name]]. Each handler of the server only notes that it was
reached. The paths are spelt in many ways; the server's own routing decides where they lead.
"""

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from urllib.parse import quote

from jupyter_server.auth import IdentityProvider, User
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

BASE = "/user/ada/"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
EXTENSIONS = ("cluster.pages", "cluster.staff.class_page", "nbgrader.server_extensions.formgrader")
ALLOWED = (
    "formgrader", "formgrader/manage_assignments", "formgrader/api/grade", "formgrader/submissions", "static",
    "formgrader/static/js", "course", "course/class", "course/class/report", "formgrader/gradebook", "login",
)  # fmt: skip
TARGETS = (
    "api/contents", "api/contents/.grading/gradebook.db", "api/contents/a/checkpoints", "api/terminals",
    "api/kernels", "api/sessions", "api/shutdown", "api/config/x", "lab", "lab/tree/x", "files/gradebook.db",
    "view/a.html", "nbconvert/html/a.ipynb", "metrics", "course/jobs", "course/job", "course/cancel", "tree",
    "course/act", "api/kernelspecs", "terminals/websocket/1", "api/events", "course/check", "static/secret",
    "formgrader/api/student/ada", "formgrader/api/assignment/01/release", "formgrader/extra/x", "api/me",
    "formgrader/api/assignment/01/assign", "formgrader/api/submission/01/ada/autograde", "course/class/extra",
)  # fmt: skip
SLASHES = ("/", "/", "/", "//", "/./", "%2f", "%2F", "\\", "%5c", "%252f", "/;/", "/%2e/", "/x/../")
UP = ("..", "..", "%2e%2e", ".%2E", "%252e%252e", "..;", "..%00", "...")
ENDS = ("", "", "", "/", "//", "%00", ";a=b", "?a=/api", "#x", "%20", "%0a", ".", "/.", "%3f", "\\")


class Extra(JupyterHandler):
    """A handler of another extension below a path of the class page's."""


class People(IdentityProvider):
    """Take the user from a header."""

    async def get_user(self, handler):
        user = User(handler.request.headers["X-User"])
        vars(user)["hub_user"] = {"groups": ["staff"] if user.username == "ines" else []}
        return user


def spelt(dice, path):
    """Return a path in one of many spellings."""
    words = path.split("/")
    if dice.random() < 0.3:
        place = dice.randrange(len(words))
        some = dice.randrange(len(words[place]) or 1)
        coded = f"%{ord((words[place] or 'a')[some]):02x}" if dice.random() < 0.7 else "%25" + "61"
        words[place] = words[place][:some] + coded + words[place][some + 1 :]
    if dice.random() < 0.1:
        words = [quote(dice.choice((str.upper, str.title, str.swapcase))(word), safe="%") for word in words]
    plain = dice.random() < 0.3
    text = words[0]
    for word in words[1:]:
        text += ("/" if plain or dice.random() < 0.8 else dice.choice(SLASHES)) + word
    return text + ("" if plain else dice.choice(ENDS))


def address(dice):
    """Return the target of a request: an allowed path that seems to lead elsewhere, or a plain one."""
    target = dice.choice(TARGETS)
    if dice.random() < 0.6:
        start = dice.choice(ALLOWED)
        ups = [dice.choice(UP) for _ in range(start.count("/") + dice.choice((0, 1, 1, 1, 2)))]
        target = "/".join([start, *ups, target])
    path = dice.choice((BASE, BASE, BASE, BASE, "/", "//user/ada/", "/user/ada//", "/USER/ada/")) + spelt(
        dice, target
    )
    return dice.choice(("", "", "", "", "http://127.0.0.1", "http://evil", "//evil")) + path


async def ask(port, user, method, target):
    """Send a request as it is spelt."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-User: {user}\r\nContent-Length: 0\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


def main(count):
    app, reached = ServerApp.instance(), []
    settings = [f"--ServerApp.jpserver_extensions={dict.fromkeys(EXTENSIONS, True)}", "--allow-root"]
    settings += [f"--ServerApp.base_url={BASE}", f"--ServerApp.root_dir={Path.cwd()}", "--log-level=CRITICAL"]
    app.config.ServerApp.identity_provider_class = People
    app.initialize([*settings, "--ClassPage.instructors=staff"], new_httpserver=False)
    rules = app.web_app.default_router.rules
    names = ("static/secret", "formgrader/extra/.*", "course/class/extra")
    app.web_app.add_handlers(".*$", [(f"{BASE}{name}", Extra) for name in names])
    rules.insert(0, rules.pop(-2 if rules[-1].target is app.web_app.wildcard_router else -1))

    def noting(kind):
        async def note(handler, *_, **__):
            who = handler.request.headers["X-User"]
            reached.append([who, handler.request.method, kind.__module__, kind.__name__])
            handler.finish()

        return note

    for rule in [one for router in rules for one in router.target.rules]:
        if isinstance(rule.target, type) and issubclass(rule.target, JupyterHandler):
            for method in METHODS:
                setattr(rule.target, method.lower(), noting(rule.target))
    JupyterHandler.check_xsrf_cookie = lambda handler: None

    async def everything():
        server, sockets = HTTPServer(app.web_app), bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        port, dice = sockets[0].getsockname()[1], random.Random(1)
        for _ in range(count):
            method, target = dice.choice((*METHODS, "GET", "GET")), address(dice)
            for user in ("ines", "gus"):
                await ask(port, user, method, target)
        server.stop()

    asyncio.run(everything())
    print(json.dumps(reached))


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the server's threads need no end
