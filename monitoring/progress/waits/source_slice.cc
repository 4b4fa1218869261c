#include "monitoring/progress/waits/source_slice.h"

#include <set>

namespace kintsugi::progress {
namespace {

constexpr size_t kMostPlaces = 48;
constexpr int kMaxDepth = 64;

class Slice {
 public:
  explicit Slice(const OpenTasks& tasks) : tasks_(tasks) {}

  /// What is open, and what encloses it up to the entry of the process.
  void add_record(uint32_t process, const proto::SightLive& record) {
    add(process, record.path(), record.file(), record.line(), record.function());
    const model::ProcessView& view = *tasks_.snapshot().processes[process];
    const proto::SightPath* path = view.path(record.path());
    for (int depth = 0; path != nullptr && depth < kMaxDepth; depth++) {
      add(process, path->path(), path->file(), path->line(), path->function());
      if (path->parent() == path->path()) break;
      path = view.path(path->parent());
    }
  }
  void add_task(uint32_t task) {
    const OpenTask& open = tasks_[task];
    for (auto record = open.records.rbegin(); record != open.records.rend(); ++record)
      add(open.process, (*record)->path(), (*record)->file(), (*record)->line(), (*record)->function());
    add_record(open.process, open.top());
    // The call that brought it here: what it works on came from there.
    for (const uint32_t caller : tasks_.holding(open.root().parent()))
      for (const proto::SightLive* record : tasks_[caller].records)
        if (record->span() == open.root().parent())
          add(tasks_[caller].process, record->path(), record->file(), record->line(), record->function());
  }
  std::vector<proto::ChainLink> take() { return std::move(places_); }

 private:
  void add(uint32_t process, uint64_t path, const std::string& file, uint32_t line,
           const std::string& function) {
    if (file.empty() || places_.size() >= kMostPlaces || !seen_.emplace(file, line).second) return;
    const model::ProcessView& view = *tasks_.snapshot().processes[process];
    proto::ChainLink place;
    place.set_process(view.display());
    if (const proto::SightPath* known = view.path(path); known != nullptr) place.set_region(known->site());
    place.set_file(file);
    place.set_line(line);
    place.set_function(function);
    places_.push_back(std::move(place));
  }

  const OpenTasks& tasks_;
  std::set<std::pair<std::string, uint32_t>> seen_;
  std::vector<proto::ChainLink> places_;
};

}  // namespace

std::vector<proto::ChainLink> source_slice(const OpenTasks& tasks, const WaitGraph& graph,
                                           const Culprit& culprit) {
  Slice slice(tasks);
  const Vertex& sink = graph.vertices()[culprit.members.front()];
  if (sink.place == Place::kRunning)
    slice.add_record(static_cast<uint32_t>(sink.process),
                     tasks.snapshot().processes[sink.process]->last().loop().last_touch());
  if (graph.vertices()[culprit.blamed].place == Place::kTask) slice.add_task(culprit.blamed);
  for (auto v = culprit.chain.rbegin(); v != culprit.chain.rend(); ++v)
    if (graph.vertices()[*v].place == Place::kTask) slice.add_task(*v);
  return slice.take();
}

}  // namespace kintsugi::progress
