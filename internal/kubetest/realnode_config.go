package kubetest

// networkConfig joins the pods on the bridge that the namespaces have, in the network of the node's address.
const networkConfig = `{"cniVersion": "1.0.0", "name": "lockdrill", "plugins": [
  {"type": "bridge", "bridge": "lockdrill0", "isDefaultGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "DIR/ipam", "ranges": [[{"subnet": "10.88.0.0/24"}]]}}]}
`

const containerdConfig = `version = 3
root = "DIR/containerd"
state = "DIR/run"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "SOCKET"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "PAUSE"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "CRI/runc"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["CRI"]
    conf_dir = "DIR/cni"
`

// kubeletConfig keeps the kubelet to what a single node for minutes needs: it evicts nobody, collects no images and touches no iptables.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://SOCKET
address: ADDRESS
port: 10250
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: CLIENTCA}}
authorization: {mode: Webhook}
tlsCertFile: CERT
tlsPrivateKeyFile: KEY
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
podLogsDir: DIR/logs
registerNode: true
resolvConf: ""
clusterDNS: [ADDRESS]
clusterDomain: cluster.local
nodeStatusUpdateFrequency: 2s
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
`
