#include "monitoring/sight/report_dictionary.h"

#include "monitoring/sight/report_entries.h"
#include "monitoring/sight/source_place.h"

namespace kintsugi::sight {

void ReportDictionary::tell(proto::SightReport& report, const ReportedPlaces& places) {
  bytes_ = 0;
  tell_paths(report, places);
  tell_states(report);
}

void ReportDictionary::tell_paths(proto::SightReport& report, const ReportedPlaces& places) {
  pending_paths_.clear();
  const auto totals = recorder_.totals();
  std::unordered_map<uint64_t, uint64_t> known;
  for (const PathTotals& path : totals)
    known.emplace(path.path, path.parent_path);
  // What is open comes first, since the report speaks of it.
  for (const auto& [path, record] : places.records) {
    PathTotals open;
    open.path = path;
    const auto parent = places.parents.find(path);
    const auto seen = known.find(path);
    if (parent != places.parents.end())
      open.parent_path = parent->second;
    else if (seen != known.end())
      open.parent_path = seen->second;
    open.role_path = record.role_path;
    open.site = record.site;
    open.where = record.where;
    tell_path(report, open);
  }
  for (const PathTotals& path : totals)
    tell_path(report, path);
}

void ReportDictionary::tell_path(proto::SightReport& report, const PathTotals& path) {
  if (bytes_ > most_bytes_ || reported_paths_.contains(path.path) || !pending_paths_.insert(path.path).second)
    return;
  proto::SightPath& told = *report.add_new_paths();
  told.set_path(path.path);
  told.set_parent(path.parent_path);
  told.set_role_path(path.role_path);
  told.set_site(std::string(path.site->name));
  if (path.where.line() != 0) {
    told.set_file(short_file(path.where.file_name()));
    told.set_line(path.where.line());
    told.set_function(short_function(path.where.function_name()));
  }
  for (std::string_view input : path.site->inputs)
    if (!input.empty()) told.add_inputs(std::string(input));
  for (std::string_view output : path.site->outputs)
    if (!output.empty()) told.add_outputs(std::string(output));
  bytes_ += told.ByteSizeLong() + kEntryBytes;
}

void ReportDictionary::tell_states(proto::SightReport& report) {
  pending_states_ = reported_states_;
  for (const StateRecord& state : recorder_.live().states().read(reported_states_)) {
    if (bytes_ > most_bytes_) break;
    proto::SightState& told = *report.add_new_states();
    told.set_state(pending_states_++);
    told.set_role_path(state.role_path);
    if (state.last_child != nullptr) told.set_last_child(std::string(state.last_child->name));
    told.set_wait(static_cast<proto::WaitKind>(state.wait));
    told.set_role(state.role);
    bytes_ += told.ByteSizeLong() + kEntryBytes;
  }
}

void ReportDictionary::delivered() {
  reported_paths_.insert(pending_paths_.begin(), pending_paths_.end());
  pending_paths_.clear();
  reported_states_ = pending_states_;
}

void ReportDictionary::forget() {
  reported_paths_.clear();
  reported_states_ = 1;
}

}  // namespace kintsugi::sight
