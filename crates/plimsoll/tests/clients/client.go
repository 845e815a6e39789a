// Go's net/http against a server: client URL LARGE_FILE. Says ok, or fails.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

func check(ok bool, what ...interface{}) {
	if !ok {
		fmt.Fprintln(os.Stderr, what...)
		os.Exit(1)
	}
}

// Sends a request with fields (name, value, ..), and gives the answer with its body.
func do(method, url string, body io.Reader, fields ...string) (*http.Response, []byte) {
	request, err := http.NewRequest(method, url, body)
	check(err == nil, err)
	for at := 0; at < len(fields); at += 2 {
		request.Header.Set(fields[at], fields[at+1])
	}
	answer, err := http.DefaultClient.Do(request)
	check(err == nil, url, err)
	content, err := io.ReadAll(answer.Body)
	check(err == nil, url, err)
	answer.Body.Close()
	return answer, content
}

func main() {
	url := os.Args[1]
	large, err := os.ReadFile(os.Args[2])
	check(err == nil, err)
	text := strings.Repeat("all work and no play, ", 500)

	var wait sync.WaitGroup
	for client := 0; client < 16; client++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for round := 0; round < 20; round++ {
				answer, content := do("GET", url+"/1k.html", nil)
				check(answer.StatusCode == 200 && string(content) == strings.Repeat("k", 1024), answer)
			}
		}()
	}
	wait.Wait()
	answer, _ := do("GET", url+"/1k.html", nil)
	answer, content := do("GET", url+"/1k.html", nil, "If-None-Match", answer.Header.Get("ETag"))
	check(answer.StatusCode == 304 && len(content) == 0, answer)
	answer, content = do("GET", url+"/large.bin", nil, "Range", "bytes=5-5, 100-199, -7")
	expected := [][]byte{large[5:6], large[100:200], large[len(large)-7:]}
	check(answer.StatusCode == 206 && strings.HasPrefix(answer.Header.Get("Content-Type"), "multipart/byteranges"), answer)
	for _, part := range expected {
		check(bytes.Contains(content, append([]byte("\r\n\r\n"), part...)), "a part is missing")
	}
	_, content = do("GET", url+"/large.bin", nil)
	check(bytes.Equal(content, large), "large.bin differs")
	answer, content = do("GET", url+"/text.txt", nil)
	check(answer.Uncompressed && string(content) == text, answer)
	answer, _ = do("HEAD", url+"/text.txt", nil, "Accept-Encoding", "identity")
	check(answer.ContentLength == int64(len(text)), answer)
	answer, content = do("GET", url+"/sub", nil)
	check(string(content) == "<h1>sub</h1>" && answer.Request.URL.Path == "/sub/", answer)
	// Of unknown length: it goes out in chunks.
	answer, _ = do("POST", url+"/1k.html", io.MultiReader(strings.NewReader(strings.Repeat("x", 10000))))
	check(answer.StatusCode == 405, answer)
	answer, _ = do("PUT", url+"/1k.html", strings.NewReader("x"), "Expect", "100-continue")
	check(answer.StatusCode == 405, answer)
	answer, _ = do("GET", url+"/missing", nil)
	check(answer.StatusCode == 404, answer)
	fmt.Println("ok")
}
