package reviewer

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var notLetInCounter = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "ingressdaemonset_streams_not_let_in_total",
	Help: "Streams that were asked for and not let in, by the code of gRPC that was answered.",
}, []string{"code"})

func init() { metrics.Registry.MustRegister(notLetInCounter) }
