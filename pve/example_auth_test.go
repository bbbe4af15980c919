package pve_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// A program authenticates with an API token, which needs no login and can be taken back.
// The secret comes from wherever the program keeps its secrets; a client reads no
// environment by itself.
func ExampleNewClient() {
	client, err := pve.NewClient("https://pve1.example.com:8006",
		pve.WithAPIToken("automation@pve!deploy", os.Getenv("PVE_TOKEN_SECRET")),
		pve.WithUserAgent("deploy/1.4"),
		pve.WithRateLimit(rate.NewLimiter(20, 5)), // 20 requests a second, 5 at once
	)
	if err != nil {
		// A bad option is an error here, before anything is sent.
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()
}

// Log in with a password. The callback answers the second factor of an account that has
// one, usually by asking someone.
func ExampleWithTFA() {
	lab, err := pvetest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer lab.Close()
	lab.AddUser("ops@pve", "correct horse")
	lab.SetSecondFactor("ops@pve", "123456")
	ctx := context.Background()

	client, err := pve.NewClient(lab.URL(), pve.WithRootCAs(lab.CertPool()),
		pve.WithPassword("ops@pve", "correct horse"),
		pve.WithTFA(func(_ context.Context, challenge pve.TFAChallenge) (pve.TFAAnswer, error) {
			fmt.Printf("code of %s (%s)?\n", challenge.User, strings.Join(challenge.Methods, " or "))
			return pve.TFAAnswer{Method: "totp", Value: "123456"}, nil
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	version, err := client.Version(ctx)
	fmt.Println(version.Major, err)

	// Without a callback, the error tells what the login lacks.
	without, err := pve.NewClient(lab.URL(), pve.WithRootCAs(lab.CertPool()), pve.WithPassword("ops@pve", "correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = without.Version(ctx)
	fmt.Println(errors.Is(err, pve.ErrTFARequired))
	// Output:
	// code of ops@pve (totp)?
	// 9 <nil>
	// true
}

// Log in with OpenID Connect: send the user to the provider's page, and exchange what
// comes back for a ticket.
func ExampleClient_LoginOpenID() {
	server := startOpenIDServer()
	defer server.Close()
	ctx := context.Background()
	const redirect = "https://tool.example.com/callback"

	anonymous, err := pve.NewClient(server.URL, pve.WithTransport(server.Client().Transport))
	if err != nil {
		log.Fatal(err)
	}
	page, err := anonymous.GetOpenIDAuthURL(ctx, pve.GetOpenIDAuthURLParams{Realm: "sso", RedirectURL: redirect})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("open", page)

	// The provider sends the browser to the callback with a code and a state.
	login, err := anonymous.LoginOpenID(ctx, pve.LoginOpenIDParams{Code: "c0de", State: "st4te", RedirectURL: redirect})
	if err != nil {
		log.Fatal(err)
	}
	client, err := pve.NewClient(server.URL, pve.WithTransport(server.Client().Transport), pve.WithTicket(pve.Ticket{
		User: login.Username, Value: login.Ticket, CSRF: login.CSRFPreventionToken, Issued: time.Now(),
	}))
	if err != nil {
		log.Fatal(err)
	}
	version, err := client.Version(ctx)
	fmt.Println(login.Username, version, err)
	// Output:
	// open https://sso.example.com/authorize?state=st4te
	// eve@sso 9.2.11 <nil>
}

// startOpenIDServer stands in for a Proxmox VE with a realm for OpenID Connect.
func startOpenIDServer() *httptest.Server {
	const ticket = "PVE:eve@sso:6B0E103A::c2lnbmF0dXJl"
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		cookie, _ := r.Cookie("PVEAuthCookie")
		switch path := strings.TrimPrefix(r.URL.Path, "/api2/json"); {
		case path == "/access/openid/auth-url":
			fmt.Fprint(w, `{"data":"https://sso.example.com/authorize?state=st4te"}`)
		case path == "/access/openid/login" && r.FormValue("code") == "c0de":
			fmt.Fprint(w, `{"data":{"username":"eve@sso","ticket":"`+ticket+`","CSRFPreventionToken":"6B0E103A:dG9rZW4","cap":{}}}`)
		case path == "/version" && cookie != nil:
			fmt.Fprint(w, `{"data":{"version":"9.2.11","release":"9.2","repoid":"b502d23c"}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
}

// The server's certificate is checked against the system's authorities unless told
// otherwise. Nothing turns the check off.
func ExampleWithRootCAs() {
	lab, err := pvetest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer lab.Close()
	token, secret := lab.RootToken()
	for _, opts := range [][]pve.Option{
		{pve.WithAPIToken(token, secret)},
		{pve.WithAPIToken(token, secret), pve.WithRootCAs(lab.CertPool())},
	} {
		client, err := pve.NewClient(lab.URL(), opts...)
		if err != nil {
			log.Fatal(err)
		}
		_, err = client.GetVersion(context.Background())
		fmt.Println(errors.Is(err, pve.ErrCertificate), errors.Is(err, pve.ErrNotSent))
	}
	// Output:
	// true true
	// false false
}
