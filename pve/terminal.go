package pve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// A Terminal is the text console of a node or a guest: what it prints is read, what is
// written is typed. Several goroutines may write at once, but only one may read. It ends
// with the context that it was opened with.
type Terminal struct {
	conn net.Conn
}

// maxTyped bounds one message, so that the server's buffer holds it.
const maxTyped = 1024

// OpenVMTerminal opens a serial console of a virtual machine, which must have one.
func (c *Client) OpenVMTerminal(ctx context.Context, p CreateVMTermProxyParams) (*Terminal, error) {
	proxy, err := c.CreateVMTermProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	return openTerminal(ctx, proxy, func() (net.Conn, error) {
		return c.GetVMVNCWebSocket(ctx, GetVMVNCWebSocketParams{Node: p.Node, VMID: p.VMID, Port: proxy.Port, VNCTicket: proxy.Ticket})
	})
}

// OpenContainerTerminal opens the console of a container.
func (c *Client) OpenContainerTerminal(ctx context.Context, p CreateContainerTermProxyParams) (*Terminal, error) {
	proxy, err := c.CreateContainerTermProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	return openTerminal(ctx, proxy, func() (net.Conn, error) {
		return c.GetContainerVNCWebSocket(ctx, GetContainerVNCWebSocketParams{Node: p.Node, VMID: p.VMID, Port: proxy.Port, VNCTicket: proxy.Ticket})
	})
}

// OpenNodeTerminal opens a shell on a node.
func (c *Client) OpenNodeTerminal(ctx context.Context, p CreateNodeTermProxyParams) (*Terminal, error) {
	proxy, err := c.CreateNodeTermProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	return openTerminal(ctx, proxy, func() (net.Conn, error) {
		return c.GetNodeVNCWebSocket(ctx, GetNodeVNCWebSocketParams{Node: p.Node, Port: proxy.Port, VNCTicket: proxy.Ticket})
	})
}

// openTerminal dials the proxy and shows it the ticket once more, as a line.
func openTerminal(ctx context.Context, proxy *TermProxy, dial func() (net.Conn, error)) (*Terminal, error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	answer := make([]byte, 2)
	if _, err = conn.Write([]byte(proxy.User + ":" + proxy.Ticket + "\n")); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil && string(answer) != "OK" {
		err = errors.New("the server does not take the terminal's ticket")
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("pve: open the terminal of %s: %w", proxy.User, err)
	}
	return &Terminal{conn}, nil
}

// Read reads what the terminal prints.
func (t *Terminal) Read(p []byte) (int, error) { return t.conn.Read(p) }

// Write types p.
func (t *Terminal) Write(p []byte) (int, error) {
	typed := 0
	var message bytes.Buffer
	for len(p) > 0 {
		n := min(len(p), maxTyped)
		message.Reset()
		message.WriteString("0:" + strconv.Itoa(n) + ":")
		message.Write(p[:n])
		if _, err := t.conn.Write(message.Bytes()); err != nil {
			return typed, err
		}
		typed += n
		p = p[n:]
	}
	return typed, nil
}

// Resize tells the terminal its size in characters.
func (t *Terminal) Resize(columns, rows int) error {
	if columns < 1 || rows < 1 {
		return fmt.Errorf("pve: a terminal cannot have %d columns and %d rows", columns, rows)
	}
	_, err := t.conn.Write([]byte("1:" + strconv.Itoa(columns) + ":" + strconv.Itoa(rows) + ":"))
	return err
}

// Ping keeps a terminal alive that nobody types into. Once in half a minute is enough.
func (t *Terminal) Ping() error {
	_, err := t.conn.Write([]byte("2"))
	return err
}

// Close ends the terminal.
func (t *Terminal) Close() error { return t.conn.Close() }
