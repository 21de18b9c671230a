module gpustack-deploy.local/sandbox/certs

go 1.26.0
