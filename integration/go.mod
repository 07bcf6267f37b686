module github.com/holdfast-mcp/holdfast/integration

go 1.26.0
