package kubetest

import (
	"context"
	"encoding/binary"
	"net"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// clusterDomain ends the names of services: NAME.NAMESPACE.svc.cluster.local.
const clusterDomain = ".svc.cluster.local"

// serveNames answers pods that ask for the name of a headless service, at port 53 of the node, until the test is over. It is no DNS
// server: of each message it reads the first question, and it knows addresses of IPv4 only.
func (e *Env) serveNames(ip string) error {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(ip, "53"))
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for query := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if answer := answerName(query[:n], e.addressesOf); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	e.t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return nil
}

// addressesOf are those of the pods that a service selects, ready or not; ok is false where there is no such service.
func (e *Env) addressesOf(name string) (ips []net.IP, ok bool) {
	service, rest, _ := strings.Cut(name, ".")
	namespace, found := strings.CutSuffix(rest, clusterDomain)
	if !found {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	s, err := e.Client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	pods, err := e.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()})
	if err != nil {
		return nil, false
	}
	for _, p := range pods.Items {
		if ip := net.ParseIP(p.Status.PodIP).To4(); ip != nil {
			ips = append(ips, ip)
		}
	}
	return ips, true
}

// Parts of RFC 1035's messages.
const (
	headerSize   = 12
	typeA        = 1
	noSuchName   = 3
	answersFlags = 0x8580 // a response, of one who knows; recursion was asked for and is there
)

// answerName is the response to a query; nil = that is none.
func answerName(query []byte, addressesOf func(string) ([]net.IP, bool)) []byte {
	if len(query) < headerSize {
		return nil
	}
	var parts []string
	at := headerSize
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return nil
		}
		parts = append(parts, string(query[at+1:end]))
		at = end
	}
	at += 5 // the empty label that ends the name, type and class
	if at > len(query) {
		return nil
	}
	ips, ok := addressesOf(strings.ToLower(strings.Join(parts, ".")))
	flags := uint16(answersFlags)
	if !ok {
		flags |= noSuchName
	}
	if binary.BigEndian.Uint16(query[at-4:]) != typeA {
		ips = nil
	}
	answer := binary.BigEndian.AppendUint16(append([]byte{}, query[:2]...), flags)
	for _, n := range []int{1, len(ips), 0, 0} {
		answer = binary.BigEndian.AppendUint16(answer, uint16(n))
	}
	answer = append(answer, query[headerSize:at]...)
	for _, ip := range ips {
		// The question's name and its class, 1 second to keep, 4 bytes.
		answer = append(append(answer, 0xc0, headerSize, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4), ip...)
	}
	return answer
}
