// Copyright 2026 The searchrl_jax Authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention of one new token a lane to the cache row that it names: an XLA
// custom call for CPU. It writes the token's key and value where they belong
// and reads exactly the columns that are filled, each once for all queries of
// a group. XLA's own products would read the whole capacity and copy it into
// another layout first.
//
//   lane  row   k, v [R, 1, K, C, H]
//     0    2    row 0   k k k k n . .     n: written, then read
//     1    0    row 1   k k . . . . .     of no lane: neither read nor written
//               row 2   k k k k k n .
//
// A lane's bits depend on its own row alone. So every sum is written out in
// vectors, in one order, and the compiler is not allowed to choose another.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// Floats of a register, and how many registers of a value are taken at once:
// times kTogether, all sums stay in registers.
#if defined(__AVX512F__)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
constexpr int64_t kLanes = 16, kSlice = 4;
#elif defined(__AVX__)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
constexpr int64_t kLanes = 8, kSlice = 2;
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
constexpr int64_t kLanes = 4, kSlice = 2;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Integers __attribute__((vector_size(kLanes * sizeof(float))));
// Queries that share one load of a key or a value.
constexpr int64_t kTogether = 4;
// Columns that are asked for before their turn: memory is what this waits for.
constexpr int64_t kAhead = 16;
// Values that stay in the first cache while all queries of a group read them.
constexpr int64_t kChunk = 64;

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Integers{__VA_ARGS__})
#endif

// The first `count` floats, then zeros; what lies behind them is not read.
inline Vector Load(const float* from, int64_t count = kLanes) {
  Vector vector = {};
  std::memcpy(&vector, from, count * sizeof(float));
  return vector;
}

inline void Store(Vector vector, float* to, int64_t count = kLanes) {
  std::memcpy(to, &vector, count * sizeof(float));
}

inline int64_t WholeVectors(int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

// Sums of neighbours: the lanes of a pairwise, then those of b.
inline Vector AddNeighbours(Vector a, Vector b) {
  return SHUFFLE(a, b, EVEN) + SHUFFLE(a, b, ODD);
}

// exp(x) for x <= 0, to 2 ulp; 0 below -87, where floats end. x = n log 2 + r,
// a polynomial of r (Cephes), and 2^n by its bits.
inline Vector Exp(Vector x) {
  const auto low = x < -87.0f;
  x = low ? Vector{} - 87.0f : x;
  // So large that its last bit is worth 1: rounds, and leaves n in the bits.
  const float kRound = 12582912.0f;
  const Vector shifted = x * 1.44269504088896341f + kRound;
  const Vector n = shifted - kRound;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  Integers bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits << 23) + (127 << 23);
  Vector power;
  std::memcpy(&power, &bits, sizeof(power));
  return low ? Vector{} : p * power;
}

// The nearest bfloat16, ties to even, of numbers that are not negative.
inline Vector Round(Vector x) {
  Integers bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & ~0xffff;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// Turns scores into weights, whole vectors of them; returns their sum, which
// knows no rounding.
float Soften(float* scores, int64_t columns, bool rounded) {
  Vector peaks = Load(scores);
  for (int64_t c = kLanes; c < columns; c += kLanes) {
    const Vector more = Load(scores + c);
    peaks = more > peaks ? more : peaks;
  }
  float peak = peaks[0];
  for (int64_t i = 1; i < kLanes; ++i) peak = std::max<float>(peak, peaks[i]);
  Vector totals = {};
  for (int64_t c = 0; c < columns; c += kLanes) {
    const Vector weights = Exp(Load(scores + c) - peak);
    totals += weights;
    Store(rounded ? Round(weights) : weights, scores + c);
  }
  float total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += totals[i];
  return total;
}

// One key-value head of a lane.
struct Head {
  const float* queries;  // [group, width]
  const float* keys;     // [columns, width]
  const float* values;   // [columns, width]
  float* mixed;          // [group, width]
  int64_t columns, group, width;
  bool rounded;  // weights are rounded to bfloat16 before they mix
};

// Scores of kLanes columns from `first` on with kQueries queries: each column
// has a vector of partial sums, and a tree adds up the vectors of all at once.
// kWidth is 0 for any width.
template <int64_t kWidth, int64_t kQueries>
void Score(const Head& head, const float* queries, int64_t first,
           float* scores, int64_t stride) {
  const int64_t width = kWidth ? kWidth : head.width;
  const int64_t padded = WholeVectors(width);
  Vector sums[kQueries][kLanes];
  for (int64_t t = 0; t < kLanes; ++t) {
    // Beyond the last column it stands in.
    const int64_t last = head.columns - 1;
    const float* key = head.keys + std::min(first + t, last) * width;
    const float* ahead = head.keys + std::min(first + t + kAhead, last) * width;
    Vector sum[kQueries] = {};
    for (int64_t h = 0; h < width; h += kLanes) {
      __builtin_prefetch(ahead + h);
      const Vector part =
          Load(key + h, kWidth ? kLanes : std::min(kLanes, width - h));
      for (int64_t g = 0; g < kQueries; ++g) {
        sum[g] += part * Load(queries + g * padded + h);
      }
    }
    for (int64_t g = 0; g < kQueries; ++g) sums[g][t] = sum[g];
  }
  for (int64_t g = 0; g < kQueries; ++g) {
    for (int64_t count = kLanes / 2; count > 0; count /= 2) {
      for (int64_t i = 0; i < count; ++i) {
        sums[g][i] = AddNeighbours(sums[g][2 * i], sums[g][2 * i + 1]);
      }
    }
    Store(sums[g][0], scores + g * stride + first);
  }
}

// Adds the weighted values of the columns [from, to) to `mixed`: kParts
// vectors from `offset` on, or for 0 what is left of a width behind them.
template <int64_t kParts, int64_t kQueries>
void Mix(const Head& head, const float* weights, int64_t stride, int64_t from,
         int64_t to, int64_t offset, float* mixed) {
  constexpr int64_t kVectors = kParts ? kParts : 1;
  const int64_t count = kParts ? kLanes : head.width % kLanes;
  Vector sums[kQueries][kVectors];
  for (int64_t g = 0; g < kQueries; ++g) {
    for (int64_t i = 0; i < kVectors; ++i) {
      sums[g][i] = Load(mixed + g * head.width + offset + i * kLanes, count);
    }
  }
  for (int64_t c = from; c < to; ++c) {
    const float* value = head.values + c * head.width + offset;
    const float* ahead =
        head.values + std::min(c + kAhead, head.columns - 1) * head.width +
        offset;
    for (int64_t i = 0; i < kVectors; ++i) {
      __builtin_prefetch(ahead + i * kLanes);
      const Vector part = Load(value + i * kLanes, count);
      for (int64_t g = 0; g < kQueries; ++g) {
        sums[g][i] += weights[g * stride + c] * part;
      }
    }
  }
  for (int64_t g = 0; g < kQueries; ++g) {
    for (int64_t i = 0; i < kVectors; ++i) {
      Store(sums[g][i], mixed + g * head.width + offset + i * kLanes, count);
    }
  }
}

template <int64_t kQueries>
void MixAll(const Head& head, const float* weights, int64_t stride,
            int64_t from, int64_t to, float* mixed) {
  constexpr int64_t kStep = kSlice * kLanes;
  int64_t h = 0;
  for (; h + kStep <= head.width; h += kStep) {
    Mix<kSlice, kQueries>(head, weights, stride, from, to, h, mixed);
  }
  for (; h + kLanes <= head.width; h += kLanes) {
    Mix<1, kQueries>(head, weights, stride, from, to, h, mixed);
  }
  if (h < head.width) {
    Mix<0, kQueries>(head, weights, stride, from, to, h, mixed);
  }
}

// Calls `run` with the first query of every few, and how many they are.
template <typename Run>
void ForQueries(int64_t group, Run run) {
  for (int64_t g = 0; g < group; g += kTogether) {
    switch (group - g) {
      case 1: run(g, std::integral_constant<int64_t, 1>()); break;
      case 2: run(g, std::integral_constant<int64_t, 2>()); break;
      case 3: run(g, std::integral_constant<int64_t, 3>()); break;
      default: run(g, std::integral_constant<int64_t, kTogether>());
    }
  }
}

// What one thread needs for a head: padded queries and their scores.
using Scratch = std::vector<float>;

// mixed = softmax(q k) v.
template <int64_t kWidth>
void Attend(const Head& head, Scratch& scratch) {
  const int64_t width = head.width, group = head.group;
  const int64_t padded = WholeVectors(width);
  const int64_t stride = WholeVectors(head.columns);
  const size_t floats = group * (padded + 1 + stride);
  if (scratch.size() < floats) scratch.resize(floats);
  float* queries = scratch.data();
  float* totals = queries + group * padded;
  float* scores = totals + group;
  std::fill_n(queries, group * padded, 0.0f);
  for (int64_t g = 0; g < group; ++g) {
    std::copy_n(head.queries + g * width, width, queries + g * padded);
  }
  for (int64_t c = 0; c < head.columns; c += kLanes) {
    ForQueries(group, [&](int64_t g, auto count) {
      Score<kWidth, count()>(head, queries + g * padded, c, scores + g * stride,
                             stride);
    });
  }
  for (int64_t g = 0; g < group; ++g) {
    float* row = scores + g * stride;
    std::fill(row + head.columns, row + stride,
              -std::numeric_limits<float>::infinity());
    totals[g] = Soften(row, head.columns, head.rounded);
  }
  std::fill_n(head.mixed, group * width, 0.0f);
  for (int64_t from = 0; from < head.columns; from += kChunk) {
    const int64_t to = std::min(head.columns, from + kChunk);
    ForQueries(group, [&](int64_t g, auto count) {
      MixAll<count()>(head, scores + g * stride, stride, from, to,
                      head.mixed + g * width);
    });
  }
  for (int64_t g = 0; g < group; ++g) {
    for (int64_t h = 0; h < width; ++h) head.mixed[g * width + h] /= totals[g];
  }
}

using Attending = void (*)(const Head&, Scratch&);

// The widths of most models have code of their own.
Attending Choose(int64_t width) {
  switch (width) {
    case 64: return Attend<64>;
    case 80: return Attend<80>;
    case 96: return Attend<96>;
    case 128: return Attend<128>;
    default: return Attend<0>;
  }
}

// What threads share: the next head to work on, and how many are done. It
// lives as long as the last task that was scheduled, however late it runs.
struct Progress {
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
};

using F32 = ffi::Buffer<ffi::F32>;
using S32 = ffi::Buffer<ffi::S32>;
using OutF32 = ffi::ResultBuffer<ffi::F32>;

// See `attend_append` in cpu_attention.py. k_out and v_out are k and v, unless
// XLA still needs those: then they are copied.
ffi::Error AttendAppend(ffi::ThreadPool pool, bool rounded, F32 q, F32 new_k, F32 new_v,
                        F32 k, F32 v, S32 length, S32 count, S32 row,
                        OutF32 mixed, OutF32 k_out, OutF32 v_out) {
  const auto sizes = k.dimensions();  // R, 1, K, C, H
  const int64_t rows = sizes[0], heads = sizes[2], capacity = sizes[3];
  const int64_t width = sizes[4], lanes = q.dimensions()[0];
  const int64_t group = q.dimensions()[1] / heads;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t r = row.typed_data()[lane];
    if (count.typed_data()[lane] <= 0) continue;
    if (r < 0 || r >= rows || length.typed_data()[r] < 0) {
      return ffi::Error::InvalidArgument(
          "lane " + std::to_string(lane) + " names row " + std::to_string(r) +
          " of " + std::to_string(rows) +
          "; it must be a row of the cache, and its length not negative");
    }
  }
  if (k_out->typed_data() != k.typed_data()) {
    std::memcpy(k_out->typed_data(), k.typed_data(), k.size_bytes());
  }
  if (v_out->typed_data() != v.typed_data()) {
    std::memcpy(v_out->typed_data(), v.typed_data(), v.size_bytes());
  }
  const Attending attend = Choose(width);
  const int64_t all = lanes * heads;
  auto progress = std::make_shared<Progress>();

  auto work = [=, q = q.typed_data(), new_k = new_k.typed_data(),
               new_v = new_v.typed_data(), length = length.typed_data(),
               count = count.typed_data(), row = row.typed_data(),
               mixed = mixed->typed_data(), keys = k_out->typed_data(),
               values = v_out->typed_data()] {
    Scratch scratch;
    for (;;) {
      const int64_t i = progress->next.fetch_add(1);
      if (i >= all) return;  // also a task that comes late: nothing is touched
      const int64_t lane = i / heads;
      float* out = mixed + i * group * width;
      if (count[lane] > 0) {
        const int64_t first = (row[lane] * heads + i % heads) * capacity;
        float* key = keys + first * width;
        float* value = values + first * width;
        int64_t columns = std::min<int64_t>(length[row[lane]], capacity);
        if (columns < capacity) {
          std::copy_n(new_k + i * width, width, key + columns * width);
          std::copy_n(new_v + i * width, width, value + columns * width);
          ++columns;
        }
        attend({q + i * group * width, key, value, out, columns, group, width,
                rounded},
               scratch);
      } else {
        std::fill_n(out, group * width, 0.0f);
      }
      progress->done.fetch_add(1);
    }
  };

  const int64_t helpers = std::min<int64_t>(pool.num_threads(), all) - 1;
  for (int64_t t = 0; t < helpers; ++t) pool.Schedule(decltype(work)(work));
  work();
  // Whoever took a head is at work on it: this takes less than one head does.
  while (progress->done.load() < all) std::this_thread::yield();
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(SearchrlAttendAppend, AttendAppend,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<bool>("rounded")
                                  .Arg<F32>()   // q
                                  .Arg<F32>()   // new_k
                                  .Arg<F32>()   // new_v
                                  .Arg<F32>()   // k
                                  .Arg<F32>()   // v
                                  .Arg<S32>()   // length
                                  .Arg<S32>()   // count
                                  .Arg<S32>()   // row
                                  .Ret<F32>()   // mixed
                                  .Ret<F32>()   // k
                                  .Ret<F32>());  // v
