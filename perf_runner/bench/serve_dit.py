"""A small HTTP server of the DiT, with the forms of vllm-omni's image endpoints, for serving cases over HTTP.

One request is denoised at a time; others wait in the order they came. An image is the latents' first three
channels as a PNG: there is no VAE. Endpoints: GET /health, GET /v1/models, POST /v1/images/generations,
POST /v1/chat/completions.
"""

import base64
import hashlib
import json
import re
import struct
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from pydantic import ValidationError

from perf_runner.bench import measure
from perf_runner.bench.case_run import resolve_path
from perf_runner.bench.world import World, output_hash
from perf_runner.targets.qwen_image_dit.config import PIXELS_PER_TOKEN, Workload
from perf_runner.targets.qwen_image_dit.denoise import new_request, run_whole
from prgate_kernels import path_log

MOST_BODY_BYTES = 1 << 20
MOST_IMAGES = 4
SIZE = re.compile(r"([0-9]{2,4})x([0-9]{2,4})")
READ_TIMEOUT_S = 30


class BadRequestError(ValueError):
    """A request that cannot be served; the message says why."""


@dataclass
class Engine:
    """The model behind the server: one image at a time."""

    world: World
    path: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    def generate(self, work: Workload, number: int) -> dict[str, Any]:
        """Return one image and how it was made. Times in seconds."""
        begin = time.perf_counter()
        with self.lock, path_log.counted() as counts:
            queued_s = time.perf_counter() - begin
            name = resolve_path(self.world, self.path, work)
            forward = self.world.paths.use(name, work.image_shape)
            request = new_request(self.world.config, work, self.world.device, number)
            latents = run_whole(forward, request).latents.clone()
            measure.synchronize(self.world.device)
            took_s = time.perf_counter() - begin - queued_s
        image = png(latents, work.image_shape)
        return {
            "b64_json": base64.b64encode(image).decode(),
            "seed": work.seed + number,
            "output_hash": output_hash(latents),
            "path": name,
            "path_log": counts,
            "stage_durations": {"queue": queued_s, "diffuse": took_s},
        }


def png(latents: torch.Tensor, image_shape: tuple[int, int, int]) -> bytes:
    """Return latents [1, tokens, channels] as an RGB image of one pixel a token."""
    _, height, width = image_shape
    channels = latents[0, :, :3].float()
    low, high = channels.min(), channels.max()
    pixels = ((channels - low) / (high - low).clamp_min(1e-6) * 255).round().to(torch.uint8)
    rows = pixels.reshape(height, width * 3).cpu().numpy()
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return one chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read_work(body: Mapping[str, Any]) -> tuple[Workload, int]:
    """Return the work of an image request, and how many images; BadRequestError says what is wrong."""
    size = body.get("size", "512x512")
    found = SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None:
        raise BadRequestError("size must be WIDTHxHEIGHT in pixels, such as 512x512")
    width, height = (int(part) for part in found.groups())
    width, height = (int(body.get(name) or value) for name, value in (("width", width), ("height", height)))
    count = body.get("n", 1)
    if not isinstance(count, int) or not 1 <= count <= MOST_IMAGES:
        raise BadRequestError(f"n must be from 1 to {MOST_IMAGES}")
    if width % PIXELS_PER_TOKEN or height % PIXELS_PER_TOKEN:
        raise BadRequestError(f"width and height must be multiples of {PIXELS_PER_TOKEN}")
    prompt = body.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise BadRequestError("prompt must be a text")
    given = {
        "width": width,
        "height": height,
        "steps": body.get("num_inference_steps", 20),
        "true_cfg_scale": body.get("true_cfg_scale", 4.0),
        "seed": body.get("seed") if body.get("seed") is not None else prompt_seed(prompt),
    }
    return Workload.model_validate(given), count


def prompt_seed(prompt: str) -> int:
    """Return the seed that a prompt stands for, as there is no text encoder to embed it."""
    return int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:3])


def chat_to_image(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat request as an image request: the last message's text, and `extra_body`'s settings."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        raise BadRequestError("messages must be a list with at least one message")
    content = messages[-1].get("content")
    if isinstance(content, list):
        texts = [str(part.get("text", "")) for part in content if isinstance(part, dict)]
        content = " ".join(texts).strip()
    extra = body.get("extra_body")
    settings = extra if isinstance(extra, dict) else body
    names = ("width", "height", "size", "num_inference_steps", "true_cfg_scale", "seed")
    return {"prompt": content, **{name: settings[name] for name in names if name in settings}}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection; the engine hangs on the server."""

    protocol_version = "HTTP/1.1"
    timeout = READ_TIMEOUT_S
    server: "DitServer"

    def do_GET(self) -> None:
        """Answer health and the list of models."""
        name = self.server.engine.world.config.name
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif self.path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        else:
            self.fail(404, f"there is no {self.path[:100]}")

    def do_POST(self) -> None:
        """Answer an image request, or a chat that asks for one."""
        try:
            body = self.read_body()
            if self.path == "/v1/images/generations":
                self.answer(200, {"created": int(time.time()), "data": self.images(body)})
            elif self.path == "/v1/chat/completions":
                self.answer(200, self.chat(body))
            else:
                self.fail(404, f"there is no {self.path[:100]}")
        except ValidationError as error:
            problem = error.errors()[0]
            self.fail(400, f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
        except (BadRequestError, TypeError, ValueError) as error:
            self.fail(400, str(error))

    def images(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the images of a request."""
        work, count = read_work(body)
        return [self.server.engine.generate(work, number) for number in range(count)]

    def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a chat completion whose message is the image."""
        image = self.images(chat_to_image(body))[0]
        url = f"data:image/png;base64,{image.pop('b64_json')}"
        content = [{"type": "image_url", "image_url": {"url": url}, **image}]
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return {"object": "chat.completion", "created": int(time.time()), "choices": [choice]}

    def read_body(self) -> dict[str, Any]:
        """Return the request's JSON object; BadRequestError where it is none, or too large."""
        text = self.headers.get("Content-Length", "")
        length = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
        if not 0 <= length <= MOST_BODY_BYTES:
            self.close_connection = True
            raise BadRequestError(f"the body must have a length of at most {MOST_BODY_BYTES} bytes")
        try:
            value = json.loads(self.rfile.read(length))
        except (ValueError, RecursionError):
            raise BadRequestError("the body is no JSON") from None
        if not isinstance(value, dict):
            raise BadRequestError("the body must be a JSON object")
        return value

    def answer(self, status: int, document: Mapping[str, Any]) -> None:
        """Send a JSON document."""
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status: int, message: str) -> None:
        """Send an error in the endpoint's form."""
        self.answer(status, {"error": {"message": message, "code": status}})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the load generator keeps the times."""


class DitServer(ThreadingHTTPServer):
    """The server; port 0 picks a free one (`server_address` tells which)."""

    daemon_threads = True

    def __init__(self, engine: Engine, address: tuple[str, int]) -> None:
        self.engine = engine
        super().__init__(address, Handler)


def serve(world: World, path: str, host: str, port: int) -> None:
    """Serve until interrupted; prints the address once it listens."""
    with DitServer(Engine(world, path), (host, port)) as server:
        print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
        server.serve_forever()
