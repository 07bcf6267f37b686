package session

import (
	"encoding/json"
	"strconv"
)

// The functions here compose whole messages around raw values, with room for
// the line feed.

func resultLine(id, result []byte) []byte {
	return composeLine(id, `"result":`, result)
}

func errorLine(id, rpcError []byte) []byte {
	return composeLine(id, `"error":`, rpcError)
}

func composeLine(id []byte, member string, value []byte) []byte {
	b := make([]byte, 0, len(id)+len(member)+len(value)+32)
	b = append(b, `{"jsonrpc":"2.0",`...)
	if len(id) > 0 {
		b = append(b, `"id":`...)
		b = append(b, id...)
		b = append(b, ',')
	}
	b = append(b, member...)
	b = append(b, value...)
	return append(b, '}')
}

// rpcErrorLine returns an error without data. Without an id it has no id
// member at all: common clients refuse "id": null.
func rpcErrorLine(id []byte, code int, message string) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		text = []byte(`""`)
	}
	value := append([]byte(`{"code":`+strconv.Itoa(code)+`,"message":`), text...)
	return errorLine(id, append(value, '}'))
}

func invalidLine(id []byte, message string) []byte {
	return rpcErrorLine(id, -32600, "Invalid Request: "+message)
}

func requestLine(number uint64, method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendUint(b, number, 10)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if len(params) > 0 {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

func notificationLine(method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if len(params) > 0 {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}
