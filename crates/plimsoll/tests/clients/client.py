"""requests and httpx against a server: client.py URL LARGE_FILE. Says ok, or fails."""

import sys

import httpx
import requests

url, large = sys.argv[1], open(sys.argv[2], "rb").read()
text = "all work and no play, " * 500


def check(name, client):
    for _ in range(20):
        answer = client.get(url + "/1k.html")
        assert answer.status_code == 200 and answer.text == "k" * 1024, (name, answer)
    tag, modified = answer.headers["ETag"], answer.headers["Last-Modified"]
    for fields in ({"If-None-Match": tag}, {"If-Modified-Since": modified}):
        answer = client.get(url + "/1k.html", headers=fields)
        assert answer.status_code == 304 and answer.content == b"", (name, fields, answer)
    answer = client.get(url + "/large.bin", headers={"Range": "bytes=1000000-1000099"})
    assert answer.status_code == 206 and answer.content == large[1000000:1000100], (name, answer)
    assert answer.headers["Content-Range"] == f"bytes 1000000-1000099/{len(large)}", (name, answer.headers)
    assert client.get(url + "/large.bin").content == large, name
    answer = client.get(url + "/text.txt")
    assert answer.text == text and answer.headers["Content-Encoding"] in ("gzip", "br", "zstd"), (name, answer.headers)
    answer = client.head(url + "/text.txt", headers={"Accept-Encoding": "identity"})
    assert answer.headers["Content-Length"] == str(len(text)) and answer.content == b"", (name, answer.headers)
    assert client.options(url + "/").headers["Allow"] == "GET, HEAD, OPTIONS", name
    assert client.post(url + "/1k.html", data={"a": "b" * 10000}).status_code == 405, name
    assert client.get(url + "/missing").status_code == 404, name
    assert client.get(url + "/files/größe 100%25.txt").text == "named", name


with requests.Session() as session:
    check("requests", session)
    answer = session.get(url + "/sub")
    assert answer.text == "<h1>sub</h1>" and answer.history[0].status_code == 301, answer
    # A body of unknown length goes out in chunks.
    assert session.post(url + "/1k.html", data=iter([b"a" * 5000, b"b"])).status_code == 405
with httpx.Client() as client:
    check("httpx", client)
    assert client.get(url + "/sub", follow_redirects=True).text == "<h1>sub</h1>"
print("ok")
