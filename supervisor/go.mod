module github.com/holdfast-mcp/holdfast/supervisor

go 1.26.0
