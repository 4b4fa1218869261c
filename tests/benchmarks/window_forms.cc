// Which server is unlike its peers, by the texts' groupings of windows as a monitor recorded them: single linkage (HAC), the same with noise
// weights, groups around medoids, our form for very many workers; and by Mirkin's distance in which window the groups changed. Windows are those
// of all chunkservers in ten seconds. Noise weights are learnt from the first minutes.
//
//   window_forms SNAPSHOTS...     prints one line of JSON for each ten seconds; `campaign.py forms` judges them
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "monitoring/daemon/window_times.h"
#include "tests/benchmarks/recorded_windows.h"
#include "tests/texts/clustering.h"
#include "tests/texts/medoids.h"
#include "tests/texts/noise_weights.h"
#include "tests/texts/population.h"

namespace kintsugi::similarity {
namespace {

constexpr int64_t kRound = 10'000'000'000;  // nanoseconds of wall time
constexpr size_t kLearnt = 12;              // rounds from which noise weights are taken
constexpr size_t kLeastServers = 5;

struct Window {
  std::string server;
  Model seconds, logs;
};

/// What all servers did in one round.
class Rounds {
 public:
  void add(int64_t wall_ns, const std::vector<RecordedWindow>& ended) {
    for (const RecordedWindow& window : ended)
      windows_[window.server] = {window.server, monitoring::seconds_of(window.did),
                                 monitoring::log_times_of(window.did)};
    if (began_ == 0) began_ = wall_ns;
    if (wall_ns - began_ < kRound) return;
    if (windows_.size() >= kLeastServers) judge(wall_ns);
    windows_.clear();
    began_ = wall_ns;
  }

 private:
  struct Answer {
    std::string server;
    double score = 0;
  };

  static double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return std::max(*middle, 1e-9);
  }

  template <class DistanceOf>
  static Distances distances_of(size_t size, const DistanceOf& distance) {
    Distances distances(size);
    for (size_t a = 0; a < size; ++a)
      for (size_t b = 0; b < a; ++b)
        distances.set(a, b, distance(a, b));
    return distances;
  }

  /// The smaller one of two groups; how odd it is: the distance at which the two would be one, in medians of all.
  static Answer linkage(const std::vector<Window>& windows, const Distances& distances,
                        std::vector<size_t>& groups) {
    const double threshold = threshold_for(distances, 2);
    groups = single_linkage(distances, threshold);
    const auto first = static_cast<size_t>(std::ranges::count(groups, size_t{0}));
    const size_t small = first * 2 <= groups.size() ? 0 : 1;
    std::vector<double> all;
    double between = 1e300;
    size_t odd = 0;
    for (size_t a = 0; a < groups.size(); ++a) {
      if (groups[a] == small) odd = a;
      for (size_t b = 0; b < a; ++b) {
        all.push_back(distances(a, b));
        if (groups[a] != groups[b]) between = std::min(between, distances(a, b));
      }
    }
    return {windows[odd].server, between / median_of(std::move(all))};
  }

  void judge(int64_t ended) {
    std::vector<Window> windows;
    std::vector<Model> seconds, logs;
    for (auto& [name, window] : windows_) {
      seconds.push_back(window.seconds);
      logs.push_back(window.logs);
      windows.push_back(std::move(window));
    }
    if (noise_.empty()) {
      learnt_.insert(learnt_.end(), seconds.begin(), seconds.end());
      if (++rounds_ == kLearnt) noise_ = noise_weights(learnt_, Form::kText);
    }
    const size_t size = windows.size();
    const Distances text = distances_of(
        size, [&](size_t a, size_t b) { return difference(seconds[a], seconds[b], Form::kText); });
    std::vector<size_t> groups, weighted_groups;
    const Answer hac = linkage(windows, text, groups);
    const Answer weighted = noise_.empty() ? Answer{}
                                           : linkage(windows,
                                                     distances_of(size,
                                                                  [&](size_t a, size_t b) {
                                                                    return difference(seconds[a], seconds[b],
                                                                                      Form::kText, noise_);
                                                                  }),
                                                     weighted_groups);
    const auto suspects = text_outliers(best_medoids(text, std::min<size_t>(size, 3)));
    const Answer medoids{windows[suspects.front().member].server, suspects.front().score};

    Population population(transitions_of(logs), size);
    for (const Model& model : logs)
      population.add(model);
    const Distances ours = distances_of(size, [&](size_t a, size_t b) { return population.distance(a, b); });
    const size_t oddest_one = oddest(population, 1, /*seed=*/1).front();
    std::vector<double> all;
    double nearest = 1e300;
    for (size_t a = 0; a < size; ++a) {
      for (size_t b = 0; b < a; ++b)
        all.push_back(ours(a, b));
      if (a != oddest_one) nearest = std::min(nearest, ours(a, oddest_one));
    }
    const Answer scalable{windows[oddest_one].server, nearest / median_of(std::move(all))};

    // Groupings are compared over the servers that both rounds have.
    std::map<std::string, size_t> now;
    for (size_t i = 0; i < size; ++i)
      now[windows[i].server] = groups[i];
    std::vector<size_t> before, after;
    for (const auto& [server, group] : now)
      if (const auto at = last_groups_.find(server); at != last_groups_.end()) {
        before.push_back(at->second);
        after.push_back(group);
      }
    const Answer change{"", mirkin(before, after)};
    last_groups_ = std::move(now);

    fmt::print("{{\"began\":{:.3f},\"ended\":{:.3f}", static_cast<double>(began_) / 1e9,
               static_cast<double>(ended) / 1e9);
    const std::pair<const char*, const Answer&> answers[] = {{"hac", hac},
                                                             {"hac-noise-weights", weighted},
                                                             {"medoids", medoids},
                                                             {"scalable", scalable},
                                                             {"mirkin", change}};
    for (const auto& [name, answer] : answers)
      fmt::print(",\"{}\":{{\"server\":\"{}\",\"score\":{:.4f}}}", name, answer.server, answer.score);
    fmt::print("}}\n");
  }

  std::map<std::string, Window> windows_;  // by server
  std::map<std::string, size_t> last_groups_;
  std::vector<Model> learnt_;
  NoiseWeights noise_;
  size_t rounds_ = 0;
  int64_t began_ = 0;
};

}  // namespace
}  // namespace kintsugi::similarity

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: window_forms SNAPSHOTS...\n");
    return 2;
  }
  kintsugi::similarity::Rounds rounds;
  const bool read = kintsugi::similarity::for_each_recorded(
      {argv + 1, argv + argc}, [&](int64_t wall_ns, const auto& ended) { rounds.add(wall_ns, ended); });
  return read ? 0 : 1;
}
