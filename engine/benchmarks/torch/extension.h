// A stand-in for PyTorch's headers, for kernels that come as an extension of PyTorch: tensors of the device, and a main that
// calls each function of the module and compares its result with one in double precision. docs/programs.md says how.
#pragma once
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace torch {
enum Type { kFloat32, kHalf, kBFloat16, kFloat8_e4m3fn, kFloat8_e5m2, kInt8, kInt32 };
enum Device { kCUDA };
inline int width(Type t) { return t == kFloat32 || t == kInt32 ? 4 : t == kHalf || t == kBFloat16 ? 2 : 1; }
struct TensorOptions {
  Type type = kFloat32;
  Type dtype() const { return type; }
  TensorOptions dtype(Type t) const { TensorOptions o; o.type = t; return o; }
  TensorOptions device(Device, int) const { return *this; }
};
inline std::ostream &operator<<(std::ostream &s, const TensorOptions &o) { return s << int(o.type); }
inline double decode(Type t, const void *p) {
  switch (t) {
  case kFloat32: return *(const float *)p;
  case kHalf: return __half2float(*(const __half *)p);
  case kBFloat16: return __bfloat162float(*(const __nv_bfloat16 *)p);
  case kFloat8_e4m3fn: return __half2float(__half(__nv_cvt_fp8_to_halfraw(*(const __nv_fp8_storage_t *)p, __NV_E4M3)));
  case kFloat8_e5m2: return __half2float(__half(__nv_cvt_fp8_to_halfraw(*(const __nv_fp8_storage_t *)p, __NV_E5M2)));
  case kInt8: return *(const int8_t *)p;
  default: return *(const int32_t *)p;
  }
}
inline void encode(Type t, double v, void *p) {
  switch (t) {
  case kFloat32: *(float *)p = float(v); break;
  case kHalf: *(__half *)p = __float2half(float(v)); break;
  case kBFloat16: *(__nv_bfloat16 *)p = __float2bfloat16(float(v)); break;
  case kFloat8_e4m3fn: *(__nv_fp8_storage_t *)p = __nv_cvt_float_to_fp8(float(v), __NV_SATFINITE, __NV_E4M3); break;
  case kFloat8_e5m2: *(__nv_fp8_storage_t *)p = __nv_cvt_float_to_fp8(float(v), __NV_SATFINITE, __NV_E5M2); break;
  case kInt8: *(int8_t *)p = int8_t(v); break;
  default: *(int32_t *)p = int32_t(v);
  }
}
struct Scalar { double v; template <class T> T to() const { return T(v); } };
struct Tensor {
  std::vector<int64_t> shape;
  Type type = kFloat32;
  std::shared_ptr<void> data;
  Tensor() {}
  Tensor(std::vector<int64_t> s, Type t) : shape(s), type(t) {
    void *p = nullptr;
    cudaMalloc(&p, numel() * width(t));
    cudaMemset(p, 0, numel() * width(t));
    data = std::shared_ptr<void>(p, [](void *q) { cudaFree(q); });
  }
  int64_t numel() const { int64_t n = 1; for (int64_t s : shape) n *= s; return n; }
  int64_t dim() const { return shape.size(); }
  int64_t size(int i) const { return shape[i]; }
  TensorOptions options() const { TensorOptions o; o.type = type; return o; }
  void *data_ptr() const { return data.get(); }
  template <class T> T *data_ptr() const { return (T *)data.get(); }
  Tensor cpu() const { return *this; }
  void set(const std::vector<double> &v) {
    std::vector<char> raw(numel() * width(type));
    for (int64_t i = 0; i < numel(); ++i) encode(type, v[i], &raw[i * width(type)]);
    cudaMemcpy(data.get(), raw.data(), raw.size(), cudaMemcpyHostToDevice);
  }
  std::vector<double> get() const {
    std::vector<char> raw(numel() * width(type));
    cudaMemcpy(raw.data(), data.get(), raw.size(), cudaMemcpyDeviceToHost);
    std::vector<double> v(numel());
    for (int64_t i = 0; i < numel(); ++i) v[i] = decode(type, &raw[i * width(type)]);
    return v;
  }
  Scalar item() const { return Scalar{get()[0]}; }
};
inline Tensor zeros(std::initializer_list<int64_t> s, TensorOptions o) { return Tensor(std::vector<int64_t>(s), o.type); }
inline std::tuple<Tensor, Tensor> max(const Tensor &a, int) {
  double m = -1e300;
  for (double v : a.get()) m = v > m ? v : m;
  Tensor t({1}, a.type);
  t.set({m});
  return std::make_tuple(t, t);
}

struct Module {
  int right = 0, count = 0;
  static constexpr int S = 2, K = 512;
  static Type type_of(const std::string &name) {
    static const struct { const char *word; Type type; } words[] = {{"bf16", kBFloat16}, {"fp8_e4m3", kFloat8_e4m3fn},
        {"fp8_e5m2", kFloat8_e5m2}, {"f16", kHalf}, {"f32", kFloat32}, {"i8", kInt8}, {"i32", kInt32}};
    size_t first = std::string::npos;
    Type type = kFloat32;
    for (auto &w : words) { size_t at = name.find(w.word); if (at < first) { first = at; type = w.type; } }
    return type;
  }
  static double tolerance(const std::string &name) {
    return name.find("bf16") != std::string::npos ? 3e-2 : name.find("f16") != std::string::npos ? 5e-3 : 1e-5;
  }
  static std::vector<double> values(Type t, unsigned seed, int n = S * K) {
    std::vector<double> v(n);
    for (int i = 0; i < n; ++i) {
      seed = seed * 1664525u + 1013904223u;
      int q = int((seed >> 16) % 9);
      v[i] = t == kInt8 || t == kInt32 ? q : (q - 2) / 4.0;
    }
    return v;
  }
  void judge(const char *name, const std::vector<double> &got, const std::vector<double> &want, double scale) {
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      double e = std::fabs(got[i] - want[i]) / scale;
      if (!(e <= worst)) worst = e;   // NaN is kept
    }
    cudaError_t error = cudaDeviceSynchronize();
    bool good = got.size() == want.size() && worst <= tolerance(name) && error == cudaSuccess;
    ++count;
    right += good;
    std::printf("%s %s: largest error %.2e%s%s\n", good ? "right" : "WRONG", name, worst, error ? ", " : "", error ? cudaGetErrorString(error) : "");
    std::fflush(stdout);
  }
  static double unary(const std::string &n, double x) {
    auto is = [&](const char *w) { return n.find(w) != std::string::npos; };
    if (is("sigmoid")) return 1 / (1 + std::exp(-x));
    if (is("swish") && !is("hard")) return x / (1 + std::exp(-x));
    if (is("hardswish")) return x * std::fmin(std::fmax(x + 3, 0), 6) / 6;
    if (is("hardshrink")) return x > 0.5 || x < -0.5 ? x : 0;
    if (is("gelu")) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    if (is("relu")) return x > 0 ? x : 0;
    if (is("elu")) return x > 0 ? x : std::exp(x) - 1;
    return NAN;
  }
  void def(const char *name, void (*f)(Tensor, Tensor), const char *) {
    Type t = type_of(name);
    Tensor x({S, K}, t), y({S, K}, t);
    auto v = values(t, 1);
    x.set(v);
    f(x, y);
    std::vector<double> want(v.size());
    double scale = 1;
    if (std::strstr(name, "softmax")) {
      scale = 1.0 / 128;
      for (int s = 0; s < S; ++s) {
        double sum = 0;
        for (int k = 0; k < K; ++k) sum += std::exp(v[s * K + k]);
        for (int k = 0; k < K; ++k) want[s * K + k] = std::exp(v[s * K + k]) / sum;
      }
      if (!std::strstr(name, "per_token")) {
        double sum = 0;
        for (double a : v) sum += std::exp(a);
        for (size_t i = 0; i < v.size(); ++i) want[i] = std::exp(v[i]) / sum;
      }
    } else for (size_t i = 0; i < v.size(); ++i) want[i] = unary(name, v[i]);
    judge(name, y.get(), want, scale);
  }
  void def(const char *name, void (*f)(Tensor, Tensor, Tensor), const char *) {
    Type t = type_of(name);
    Tensor a({S, K}, t), b({S, K}, t), c({S, K}, t);
    auto v = values(t, 1), w = values(t, 2), want = v;
    a.set(v);
    b.set(w);
    f(a, b, c);
    for (size_t i = 0; i < v.size(); ++i) want[i] = v[i] + w[i];
    judge(name, c.get(), want, 1);
  }
  void def(const char *name, Tensor (*f)(Tensor), const char *) {
    Type t = type_of(name);
    bool histogram = std::strstr(name, "histogram");
    Tensor x = histogram ? Tensor({S * K}, t) : Tensor({S, K}, t);
    auto v = values(t, 1);
    x.set(v);
    Tensor y = f(x);
    std::vector<double> want(histogram ? 9 : 1);
    double size = 0;
    for (double a : v) { want[histogram ? int(a) : 0] += histogram ? 1 : a; size += std::fabs(a); }
    judge(name, y.get(), want, histogram ? 1 : size);
  }
  void def(const char *name, Tensor (*f)(Tensor, Tensor), const char *) {
    Type t = type_of(name);
    Tensor a({S, K}, t), b({S, K}, t);
    auto v = values(t, 1), w = values(t, 2);
    a.set(v);
    b.set(w);
    double sum = 0, size = 0;
    for (size_t i = 0; i < v.size(); ++i) { sum += v[i] * w[i]; size += std::fabs(v[i] * w[i]); }
    judge(name, f(a, b).get(), {sum}, size);
  }
  void norm(const char *name, bool centred, double g, double b, const std::vector<double> &v, const Tensor &y) {
    std::vector<double> want(v.size());
    for (int s = 0; s < S; ++s) {
      double mean = 0, square = 0;
      for (int k = 0; k < K; ++k) mean += centred ? v[s * K + k] / K : 0;
      for (int k = 0; k < K; ++k) square += (v[s * K + k] - mean) * (v[s * K + k] - mean) / K;
      for (int k = 0; k < K; ++k) want[s * K + k] = (v[s * K + k] - mean) / std::sqrt(square + 1e-5) * g + b;
    }
    judge(name, y.get(), want, 4);
  }
  void def(const char *name, void (*f)(Tensor, Tensor, float, float), const char *) {
    Type t = type_of(name);
    Tensor x({S, K}, t), y({S, K}, t);
    auto v = values(t, 1);
    x.set(v);
    f(x, y, 1.5f, 0.25f);
    norm(name, true, 1.5, 0.25, v, y);
  }
  void def(const char *name, void (*f)(Tensor, Tensor, float), const char *) {
    Type t = type_of(name);
    Tensor x({S, K}, t), y({S, K}, t);
    auto v = values(t, 1);
    x.set(v);
    f(x, y, 1.5f);
    norm(name, false, 1.5, 0, v, y);
  }
};
}  // namespace torch

#define TORCH_EXTENSION_NAME stand_in
#define PYBIND11_MODULE(name, m) static void torch_functions(torch::Module &m)
static void torch_functions(torch::Module &m);
int main() {
  torch::Module m;
  torch_functions(m);
  std::printf("%d of %d right\n", m.right, m.count);
  return m.right == m.count ? 0 : 1;
}
