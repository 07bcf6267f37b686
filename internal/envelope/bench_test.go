package envelope_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// message returns a call in the order of the TypeScript SDK, which puts the id
// last, of about size bytes.
func message(text string, size int) []byte {
	text = strings.Repeat(text, size/len(text))
	return []byte(`{"method":"tools/call","params":{"name":"t","arguments":{"s":"` + text + `"}},"jsonrpc":"2.0","id":1}`)
}

func BenchmarkPeek(b *testing.B) {
	texts := []struct{ name, text string }{
		{"plain", "x"},
		{"json", `{\"key\": \"value\", \"n\": 12345},\n`}, // JSON inside JSON, as tools return it
		{"escapes", `\n`},
		{"numbers", "1"}, // many tokens
		{"cjk", "漢字"},
	}
	for _, text := range texts {
		for _, size := range []int{64, 4 << 10, 256 << 10, 4 << 20} {
			b.Run(text.name+"/"+strconv.Itoa(size), func(b *testing.B) {
				line := message(text.text, size)
				if text.name == "numbers" {
					line = []byte(`{"method":"tools/call","params":[` + strings.Repeat("12345,", size/6) + `0],"jsonrpc":"2.0","id":1}`)
				}
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := envelope.Peek(line); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkValid is the measure: what encoding/json takes to look once.
func BenchmarkValid(b *testing.B) {
	line := message("x", 4<<20)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if !json.Valid(line) {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkFind(b *testing.B) {
	line := message("x", 256<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := envelope.Find(line, "jsonrpc"); !ok {
			b.Fatal("not found")
		}
	}
}
