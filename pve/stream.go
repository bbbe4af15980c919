package pve

import (
	"context"
	"net"
	"net/http"
)

// DoUpload sends a file to an operation that this package has no method for; see
// [Client.Do].
func (c *Client) DoUpload(ctx context.Context, method, path string, params any, body Upload, out any) error {
	return c.rest.Upload(ctx, method, path, params, body, out)
}

// DoDownload asks for a file from the given offset on, where the server allows that:
// [Download.Offset] says where the stream really begins. The caller closes it.
func (c *Client) DoDownload(ctx context.Context, path string, params any, offset int64) (*Download, error) {
	return c.rest.DownloadFrom(ctx, http.MethodGet, path, params, offset)
}

// DoWebSocket opens a stream to a console that this package has no method for.
func (c *Client) DoWebSocket(ctx context.Context, path string, params any) (net.Conn, error) {
	return c.rest.WebSocket(ctx, path, params)
}
