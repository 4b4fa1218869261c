#include "monitoring/analysis.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/detectors.h"
#include "monitoring/daemon/process_windows.h"
#include "monitoring/daemon/record_log.h"
#include "monitoring/progress/engine.h"
#include "monitoring/progress/texts/comparison.h"

namespace kintsugi::monitoring {
namespace {

namespace fs = std::filesystem;

using Verdicts = std::vector<proto::Verdict>;
/// The culprits that one method names.
using Method = std::function<Verdicts(const model::Snapshot&)>;

template <progress::Method method>
Method compared() {
  return [comparison = std::make_shared<progress::Comparison>(method)](const model::Snapshot& snapshot) {
    return comparison->diagnose(snapshot);
  };
}

template <bool compare_siblings>
Method ours() {
  return [engine = std::make_shared<progress::Engine>(
              progress::EngineOptions{.compare_siblings = compare_siblings})](
             const model::Snapshot& snapshot) { return engine->diagnose(snapshot); };
}

constexpr std::pair<std::string_view, Method (*)()> kMethods[] = {
    {"waits", ours<true>},
    {"waits-only", ours<false>},
    {"targets-hidden", compared<progress::Method::kTargetsHidden>},
    {"prodometer", compared<progress::Method::kProdometer>},
    {"automaded", compared<progress::Method::kAutomaDeD>},
    {"automaded-semi", compared<progress::Method::kAutomaDeDSemi>},
    {"oldest-span", compared<progress::Method::kOldestSpan>},
    {"silence", compared<progress::Method::kSilence>},
};

/// Null: there is none of that name.
Method method_called(std::string_view name) {
  for (const auto& [known, make] : kMethods)
    if (known == name) return make();
  return nullptr;
}

/// All that a monitor looks for.
Method all_detectors() {
  using Detectors = std::vector<std::unique_ptr<Detector>>;
  return [detectors = std::make_shared<Detectors>(make_detectors(false))](const model::Snapshot& snapshot) {
    Verdicts verdicts;
    for (const auto& detector : *detectors) {
      detector->hear(verdicts, snapshot.taken);
      std::ranges::move(detector->examine(snapshot), std::back_inserter(verdicts));
    }
    return verdicts;
  };
}

int usage() {
  std::string names;
  for (const auto& [name, make] : kMethods)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  std::fprintf(stderr, "usage: kintsugi-monitor analyse [--method NAME | --windows] PATH...\nmethods: %s\n",
               names.c_str());
  return 2;
}

/// The segments below a path, the oldest first.
Result<std::vector<fs::path>> segments_at(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return Status(Code::kNotFound, fmt::format("{}: no such file or directory", path));
  if (!fs::is_directory(path, error)) return std::vector<fs::path>{path};
  const fs::path inside = fs::path(path) / "snapshots";
  std::vector<fs::path> segments;
  for (const auto& entry :
       fs::directory_iterator(fs::is_directory(inside, error) ? inside : fs::path(path), error))
    if (entry.path().extension() == ".log") segments.push_back(entry.path());
  if (error) return Status(Code::kIoError, fmt::format("{}: {}", path, error.message()));
  std::ranges::sort(segments);
  return segments;
}

void print(const model::Snapshot& snapshot, const Verdicts& verdicts) {
  std::string list;
  for (const proto::Verdict& verdict : verdicts)
    list += (list.empty() ? "" : ",") + proto::to_json(verdict);
  fmt::print("{{\"unix_s\":{:.3f},\"processes\":{},\"verdicts\":[{}]}}\n",
             static_cast<double>(snapshot.wall_ns) / 1e9, snapshot.processes.size(), list);
}

/// False, and said why, when a file is not one of snapshots.
bool for_each_snapshot(const std::vector<fs::path>& segments,
                       const std::function<void(const model::Snapshot&)>& use) {
  for (const fs::path& path : segments) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (std::string_view record : RecordLog::parse(bytes)) {
      const auto snapshot = model::parse_snapshot(record);
      if (!snapshot) {
        std::fprintf(stderr, "kintsugi-monitor: %s: %s\n", path.c_str(), snapshot.error().message().c_str());
        return false;
      }
      use(*snapshot);
    }
  }
  return true;
}

bool print_verdicts(const std::vector<fs::path>& segments, const Method& method) {
  return for_each_snapshot(segments,
                           [&](const model::Snapshot& snapshot) { print(snapshot, method(snapshot)); });
}

bool print_windows(const std::vector<fs::path>& segments) {
  ProcessWindows windows;
  return for_each_snapshot(segments, [&](const model::Snapshot& snapshot) {
    for (const JudgedWindow& window : windows.add(snapshot))
      fmt::print("{}\n", to_json(window, windows.names()));
  });
}

}  // namespace

int analyse(const std::vector<std::string>& arguments) {
  Method method;
  std::vector<fs::path> segments;
  bool named = false, windows = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--windows") {
      windows = true;
      continue;
    }
    if (arguments[i] == "--method") {
      method = method_called(i + 1 < arguments.size() ? arguments[i + 1] : "");
      if (!method) return usage();
      ++i;
      continue;
    }
    if (arguments[i].starts_with("--")) return usage();
    named = true;
    const auto found = segments_at(arguments[i]);
    if (!found) {
      std::fprintf(stderr, "kintsugi-monitor: %s\n", found.error().message().c_str());
      return 1;
    }
    segments.insert(segments.end(), found->begin(), found->end());
  }
  if (!named || (windows && method)) return usage();
  if (windows) return print_windows(segments) ? 0 : 1;
  return print_verdicts(segments, method ? method : all_detectors()) ? 0 : 1;
}

}  // namespace kintsugi::monitoring
