package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// A RetryPolicy bounds how often and how fast calls are repeated. Which calls are
// repeated at all does not depend on it:
//
//	                                 read   write   safe write   upload   login
//	request not sent (dial, TLS)     yes    yes     yes          yes      yes
//	sent, no or half an answer       yes    no      yes          no       yes
//	status 595, 596, 597, 598, 599   yes    no      yes          no       yes
//	status 502, 503, 504             yes    no      yes          no       yes
//	status 401, password at hand     once   no      once         no       no
//	every other answer               no     no      no           no       no
//	bad certificate, ended context   no     no      no           no       no
//
// A write that is answered 401 is not repeated, although the server looks at the session
// before anything else: some operations answer 401 themselves, to a wrong password or
// code among their parameters, and would count a second attempt. The next call begins
// with a new session.
//
// Safe writes are those named by [WithSafeWrites]. With several endpoints, a request
// that was not sent goes to the next endpoint at once. The table may become more
// careful in later versions.
type RetryPolicy struct {
	// Attempts is how often a request is made at most, the first time included; 1
	// turns retries off, 0 means 4.
	Attempts int

	// MinWait is the wait before the first repetition, 0 means 150 ms. It doubles each
	// time up to MaxWait, 0 means 3 s. The real wait is drawn from the upper half.
	MinWait time.Duration
	MaxWait time.Duration
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = 4
	}
	if p.MinWait == 0 {
		p.MinWait = 150 * time.Millisecond
	}
	if p.MaxWait == 0 {
		p.MaxWait = 3 * time.Second
	}
	return p
}

// wait returns how long to wait before the given repetition, counted from 1.
func (p RetryPolicy) wait(repetition int) time.Duration {
	d := p.MinWait
	for range repetition - 1 {
		if d >= p.MaxWait/2 {
			d = p.MaxWait
			break
		}
		d *= 2
	}
	d = min(d, p.MaxWait)
	return d/2 + rand.N(d/2+1)
}

// A callKind says what repeating a call would do.
type callKind int

const (
	kindRead      callKind = iota // changes nothing
	kindWrite                     // may change something each time
	kindSafeWrite                 // the caller says that twice is as good as once
	kindUpload                    // a write whose body may not be at hand again
	kindLogin                     // makes a ticket, which is no harm
)

// A fault says how one attempt failed.
type fault int

const (
	faultNone    fault = iota // an answer that settles the call, whatever it says
	faultNotSent              // the request provably never left
	faultLost                 // it may have arrived, the answer did not
	faultProxy                // 595 … 599
	faultGateway              // 502, 503, 504
	faultAuth                 // 401
	faultFinal                // bad certificate, ended context, refused redirect
)

// A verdict is what to do about a fault.
type verdict int

const (
	giveUp verdict = iota
	again          // the same call, after a wait
	renew          // the same call, with a new session
)

// judge is the whole retry policy but for the number of attempts.
func judge(kind callKind, f fault) verdict {
	repeatable := kind == kindRead || kind == kindSafeWrite || kind == kindLogin
	switch f {
	case faultNotSent:
		return again
	case faultLost, faultProxy, faultGateway:
		if repeatable {
			return again
		}
	case faultAuth:
		if kind == kindRead || kind == kindSafeWrite {
			return renew
		}
	}
	return giveUp
}

// faultOfStatus classifies an answer.
func faultOfStatus(status int) fault {
	switch status {
	case statusConnect, statusTLS, statusBody, statusAborted, statusOther:
		return faultProxy
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return faultGateway
	case http.StatusUnauthorized:
		return faultAuth
	}
	return faultNone
}

// faultOfError classifies a failed round trip whose context has not ended. connected says whether the transport
// ever had a connection for the request; transports that do not say are judged by the
// error alone.
func faultOfError(err error, connected, traced bool) fault {
	switch {
	case isCertificateError(err) || isPlainHTTP(err):
		return faultFinal
	case neverDialed(err) || traced && !connected:
		return faultNotSent
	}
	return faultLost
}

func neverDialed(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// isContextError also finds the timeouts of dialers, which call themselves
// context.DeadlineExceeded.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isPlainHTTP recognises a server that answers a TLS handshake in plain HTTP.
func isPlainHTTP(err error) bool {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(record.RecordHeader[:]) == "HTTP/" || errors.Is(err, http.ErrSchemeMismatch)
}

func isCertificateError(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrCertificate) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok
}

// pause waits for d or for the end of ctx, whichever comes first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
