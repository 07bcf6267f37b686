module github.com/holdfast-mcp/holdfast/internal

go 1.26.0
