#include "monitoring/behaviour/mic.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kintsugi::behaviour {
namespace {

constexpr double kGridExponent = 0.6;
constexpr size_t kClumpsAColumn = 15;

std::vector<size_t> order_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

/// The row of every point when rows hold about equal shares of the points and equal values share a row. Returns how
/// many rows came of it.
size_t equal_rows(std::span<const double> y, const std::vector<size_t>& order, size_t rows,
                  std::vector<uint32_t>& row_of) {
  const size_t n = y.size();
  size_t row = 0, in_row = 0;
  double wanted = static_cast<double>(n) / static_cast<double>(rows);
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && y[order[end]] == y[order[i]])
      ++end;
    const auto block = static_cast<double>(end - i), held = static_cast<double>(in_row);
    if (in_row > 0 && row + 1 < rows && std::abs(held + block - wanted) >= std::abs(held - wanted)) {
      ++row;
      in_row = 0;
      wanted = static_cast<double>(n - i) / static_cast<double>(rows - row);
    }
    for (size_t j = i; j < end; ++j)
      row_of[order[j]] = static_cast<uint32_t>(row);
    in_row += end - i;
    i = end;
  }
  return row + 1;
}

/// Where clumps end in the order of x: neighbours of one row need never be in two columns, and equal values cannot be.
std::vector<size_t> clump_ends(std::span<const double> x, const std::vector<size_t>& order,
                               const std::vector<uint32_t>& row_of, size_t at_most) {
  const size_t n = x.size();
  std::vector<size_t> ends;
  constexpr uint32_t kMixed = std::numeric_limits<uint32_t>::max();
  uint32_t last = kMixed;
  for (size_t i = 0; i < n;) {
    size_t end = i;
    uint32_t row = row_of[order[i]];
    for (; end < n && x[order[end]] == x[order[i]]; ++end)
      if (row_of[order[end]] != row) row = kMixed;
    if (!ends.empty() && row == last && row != kMixed)
      ends.back() = end;
    else
      ends.push_back(end);
    last = row;
    i = end;
  }
  if (ends.size() <= at_most) return ends;
  std::vector<size_t> merged;  // superclumps: neighbouring clumps, merged to about equal size
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t left = at_most - merged.size();
    const double wanted = static_cast<double>(n - begin) / static_cast<double>(left);
    const bool last_one = i + 1 == ends.size();
    if (last_one || (left > 1 && static_cast<double>(ends[i] - begin) + 0.5 >= wanted)) {
      merged.push_back(ends[i]);
      begin = ends[i];
    }
  }
  return merged;
}

/// For each number of columns up to `columns` the largest mutual information with the rows, in bits.
std::vector<double> best_columns(const std::vector<size_t>& ends, const std::vector<size_t>& order,
                                 const std::vector<uint32_t>& row_of, size_t rows, size_t columns,
                                 const std::vector<double>& count_log_count) {
  const size_t clumps = ends.size(), n = order.size();
  std::vector<uint32_t> cumulative((clumps + 1) * rows, 0);
  for (size_t c = 0, i = 0; c < clumps; ++c) {
    std::copy_n(&cumulative[c * rows], rows, &cumulative[(c + 1) * rows]);
    for (; i < ends[c]; ++i)
      ++cumulative[(c + 1) * rows + row_of[order[i]]];
  }
  const auto begin_of = [&](size_t c) { return c == 0 ? 0 : ends[c - 1]; };
  // gain(s, t) = sum over rows of n_r log n_r, less n log n, of the column that holds the clumps s … t − 1.
  std::vector<double> gain((clumps + 1) * (clumps + 1), 0);
  for (size_t s = 0; s < clumps; ++s)
    for (size_t t = s + 1; t <= clumps; ++t) {
      double sum = -count_log_count[ends[t - 1] - begin_of(s)];
      for (size_t r = 0; r < rows; ++r)
        sum += count_log_count[cumulative[t * rows + r] - cumulative[s * rows + r]];
      gain[t * (clumps + 1) + s] = sum;
    }
  double row_entropy = 0;  // entropy times n
  for (size_t r = 0; r < rows; ++r)
    row_entropy -= count_log_count[cumulative[clumps * rows + r]];
  row_entropy += count_log_count[n];

  std::vector<double> best(clumps + 1), next(clumps + 1), result(columns + 1, 0);
  for (size_t t = 0; t <= clumps; ++t)
    best[t] = gain[t * (clumps + 1)];
  for (size_t l = 2; l <= columns; ++l) {
    for (size_t t = 0; t <= clumps; ++t) {
      double top = best[t];  // one column may stay unused
      const double* into = &gain[t * (clumps + 1)];
      for (size_t s = l - 1; s < t; ++s)
        top = std::max(top, best[s] + into[s]);
      next[t] = top;
    }
    std::swap(best, next);
    result[l] = std::max(0.0, (row_entropy + best[clumps]) / static_cast<double>(n));
  }
  return result;
}

double one_orientation(std::span<const double> x, std::span<const double> y, size_t cells,
                       const std::vector<double>& count_log_count) {
  const auto x_order = order_of(x), y_order = order_of(y);
  std::vector<uint32_t> row_of(x.size());
  double top = 0;
  for (size_t rows = 2; rows <= cells / 2; ++rows) {
    const size_t columns = cells / rows;
    if (columns < 2) break;
    const size_t made = equal_rows(y, y_order, rows, row_of);
    if (made < 2) continue;
    const auto ends = clump_ends(x, x_order, row_of, kClumpsAColumn * columns);
    if (ends.size() < 2) continue;
    const auto information = best_columns(ends, x_order, row_of, made, columns, count_log_count);
    for (size_t l = 2; l <= columns; ++l)
      top = std::max(top, information[l] / std::log2(static_cast<double>(std::min(l, rows))));
  }
  return std::min(1.0, top);
}

}  // namespace

double mic(std::span<const double> x, std::span<const double> y) {
  const size_t n = x.size();
  if (n < 4) return 0;
  const auto cells =
      std::max<size_t>(4, static_cast<size_t>(std::pow(static_cast<double>(n), kGridExponent)));
  std::vector<double> count_log_count(n + 1, 0);
  for (size_t i = 2; i <= n; ++i)
    count_log_count[i] = static_cast<double>(i) * std::log2(static_cast<double>(i));
  return std::max(one_orientation(x, y, cells, count_log_count),
                  one_orientation(y, x, cells, count_log_count));
}

double mic_noise_threshold(size_t points) {
  struct Known {
    double points, threshold;
  };
  // The 99th percentile under 1000 random permutations, and under 400 above 128 points: behaviour_mic_test measures it.
  static constexpr Known kTable[] = {{16, 0.567},  {24, 0.567},  {32, 0.467},  {48, 0.467},
                                     {64, 0.418},  {96, 0.356},  {128, 0.323}, {192, 0.285},
                                     {256, 0.243}, {384, 0.210}, {512, 0.197}};
  constexpr double kLeast = 0.2;
  const double at = std::log2(static_cast<double>(std::max<size_t>(points, 1)));
  const Known* before = &kTable[0];
  if (at <= std::log2(before->points)) return std::max(kLeast, before->threshold);
  for (const Known& known : kTable) {
    if (at <= std::log2(known.points) && &known != before) {
      const double low = std::log2(before->points), high = std::log2(known.points);
      return std::max(kLeast,
                      before->threshold + (at - low) / (high - low) * (known.threshold - before->threshold));
    }
    before = &known;
  }
  return std::max(kLeast, before->threshold);
}

}  // namespace kintsugi::behaviour
