// Java's HttpClient against a server: Client URL LARGE_FILE. Says ok, or fails.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;

class Client {
    static String url;
    static final HttpClient client = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();

    static void check(boolean ok, Object what) {
        if (!ok) throw new AssertionError(what);
    }

    static HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(url + path));
    }

    static HttpResponse<byte[]> get(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofByteArray());
    }

    public static void main(String[] args) throws Exception {
        url = args[0];
        byte[] large = Files.readAllBytes(Path.of(args[1]));
        var answers = new ArrayList<CompletableFuture<HttpResponse<String>>>();
        // It asks for an upgrade to HTTP/2 with its first requests, which is to be passed over.
        for (int i = 0; i < 100; i++) answers.add(client.sendAsync(request("/1k.html").build(), BodyHandlers.ofString()));
        for (var answer : answers) check(answer.get().body().equals("k".repeat(1024)), answer.get());
        String tag = answers.get(0).get().headers().firstValue("ETag").get();
        var same = get(request("/1k.html").header("If-None-Match", tag));
        check(same.statusCode() == 304 && same.body().length == 0, same);
        var part = get(request("/large.bin").header("Range", "bytes=1000-1999"));
        check(part.statusCode() == 206 && Arrays.equals(part.body(), Arrays.copyOfRange(large, 1000, 2000)), part);
        check(Arrays.equals(get(request("/large.bin")).body(), large), "large.bin differs");
        var sub = get(request("/sub"));
        check(new String(sub.body()).equals("<h1>sub</h1>") && sub.uri().getPath().equals("/sub/"), sub);
        var post = get(request("/1k.html").POST(HttpRequest.BodyPublishers.ofString("x".repeat(10000))));
        check(post.statusCode() == 405, post);
        var head = get(request("/1k.html").method("HEAD", HttpRequest.BodyPublishers.noBody()));
        check(head.headers().firstValue("Content-Length").get().equals("1024") && head.body().length == 0, head);
        check(get(request("/missing")).statusCode() == 404, "missing");
        System.out.println("ok");
    }
}
