/// Precompiled for the programs that are written against the client library.
#pragma once

#include "common/proto/pch.h"

#include "client/lib/blocking_client.h"
