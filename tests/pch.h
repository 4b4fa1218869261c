/// Precompiled for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/pch.h"
