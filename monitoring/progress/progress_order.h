/// Progress without wait targets: tasks compared by what they have done (Laguna et al. 2015, Mitra 2016). The baselines that the campaign holds beside
/// our verdicts, on the same snapshots, and our own form for when nobody says what is waited for.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "monitoring/progress/loops.h"
#include "monitoring/progress/markov.h"
#include "monitoring/progress/open_tasks.h"
#include "monitoring/progress/path_probability.h"

namespace kintsugi::progress {

/// A task that stands still, as progress analysis sees it.
struct Standing {
  struct Count {
    uint64_t from, to;
    double times;
  };

  uint32_t task = 0;   ///< index in OpenTasks
  uint64_t state = 0;  ///< key
  uint64_t trace = 0;
  std::string role;
  double progress = 0;
  bool waits_for_others = false;  ///< by the kind of its wait
  std::vector<Count>
      counts;  ///< its own transitions, sorted by seal(); empty: there were too many for its table

  void add(uint64_t from, uint64_t to, double times) { counts.push_back({from, to, times}); }
  void seal();
  /// REQUIRES: seal() was called after the last add().
  double count(uint64_t from, uint64_t to) const;
};

/// A progress dependence graph: for each element, those that it depends on.
using DependenceGraph = Successors;

/// Elements without dependences: the least progressed.
std::vector<uint32_t> least_progressed(const DependenceGraph& graph);

/// All tasks that stand still, with their counts.
std::vector<Standing> standing_tasks(const OpenTasks& tasks);

/// The control flow of all processes together. `entries`: states that tasks begin with.
struct GlobalModel {
  Markov markov;
  std::vector<uint32_t> entries;
};
/// `join_calls`: the callee runs between what its caller did before the call and the caller's wait for the answer, by the calling contexts
/// of the dictionaries: so states of different roles can be compared.
GlobalModel global_model(const OpenTasks& tasks, const std::vector<Standing>& standing, bool join_calls);
/// Of the tasks' own transitions alone.
GlobalModel global_model(const std::vector<Standing>& standing);

/// AutomaDeD: the table of path probabilities, which are sums over simple paths, or `hitting` probabilities. `own_models`: DIST, each task from its own transitions, united by OR; else SEMI-DIST,
/// from the global model. Elements are `standing`.
DependenceGraph automaded(const std::vector<Standing>& standing, const GlobalModel& model, bool own_models,
                          bool hitting = false);

/// Prodometer, algorithms 1 and 2 in the text's form, with its misprints mended.
DependenceGraph prodometer(const std::vector<Standing>& standing, const GlobalModel& model);

/// Our form: natural loops and hitting probabilities, tasks of one operation only; who waits for others by the kind of its wait never comes
/// before one that waits for nobody.
DependenceGraph without_targets(const std::vector<Standing>& standing, const GlobalModel& model);

/// Of siblings, tasks of one role, only those that are not ahead of another by their counts.
std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model);

}  // namespace kintsugi::progress
