package jupyter

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/zmtp"
)

var (
	errSignature = errors.New("wrong signature")
	errMalformed = errors.New("malformed message")
)

// protocolVersion is that of the messages that are sent.
const protocolVersion = "5.3"

// delimiter stands between the addresses of a message and its parts.
var delimiter = []byte("<IDS|MSG>")

// Message is one message of a kernel.
type Message struct {
	// Type as the protocol names it, such as "stream" or "display_data".
	Type string
	// Content is a JSON object, as the kernel sent it.
	Content json.RawMessage
	// Buffers are binary parts behind the message.
	Buffers [][]byte

	id     string
	parent string // id of the message that this one is about
}

type header struct {
	ID       string `json:"msg_id"`
	Type     string `json:"msg_type"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Version  string `json:"version"`
}

// session makes and reads messages under one key.
type session struct {
	id   string
	key  []byte
	sent atomic.Uint64
}

func newSession() *session {
	return &session{id: random(), key: []byte(random())}
}

// random is a new name or key of 32 letters.
func random() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// encode returns a signed message and its id. parent is the raw header of the
// message that it answers, nil if it answers none.
func (s *session) encode(kind string, parent json.RawMessage, content any) (id string, m zmtp.Message, err error) {
	id = s.id + "_" + strconv.FormatUint(s.sent.Add(1), 10)
	head, err := json.Marshal(header{
		ID: id, Type: kind, Session: s.id, Username: "holdfast",
		Date: time.Now().UTC().Format(time.RFC3339Nano), Version: protocolVersion,
	})
	if err != nil {
		return "", nil, err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return "", nil, err
	}
	if parent == nil {
		parent = json.RawMessage("{}")
	}
	parts := [][]byte{head, parent, []byte("{}"), body}
	return id, append(zmtp.Message{delimiter, s.sign(parts)}, parts...), nil
}

// decode checks and reads a message; raw is its header.
func (s *session) decode(frames zmtp.Message) (m Message, raw json.RawMessage, err error) {
	at := -1
	for i, f := range frames {
		if bytes.Equal(f, delimiter) {
			at = i
			break
		}
	}
	if at < 0 || len(frames) < at+6 {
		return Message{}, nil, fmt.Errorf("%w: %d frames", errMalformed, len(frames))
	}
	signature, parts := frames[at+1], frames[at+2:at+6]
	if !hmac.Equal(signature, s.sign(parts)) {
		return Message{}, nil, errSignature
	}
	var own, parent header
	if err := json.Unmarshal(parts[0], &own); err != nil {
		return Message{}, nil, fmt.Errorf("%w: header: %w", errMalformed, err)
	}
	if err := json.Unmarshal(parts[1], &parent); err != nil {
		return Message{}, nil, fmt.Errorf("%w: parent header: %w", errMalformed, err)
	}
	m = Message{Type: own.Type, Content: parts[3], id: own.ID, parent: parent.ID}
	if len(frames) > at+6 {
		m.Buffers = frames[at+6:]
	}
	return m, parts[0], nil
}

// sign returns the HMAC-SHA256 of the parts, in hexadecimal digits.
func (s *session) sign(parts [][]byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	for _, part := range parts {
		mac.Write(part)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}
