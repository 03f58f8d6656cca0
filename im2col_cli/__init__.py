"""Golden files for the im2col WebGPU convolution kernel."""
