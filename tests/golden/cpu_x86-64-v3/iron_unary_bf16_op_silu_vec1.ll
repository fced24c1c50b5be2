target triple = "x86_64-unknown-linux-gnu"
define void @iron_unary_bf16_op_silu_vec1(ptr noalias %args, i64 %first, i64 %end) "no-builtins" {
entry:
  %cell3 = alloca i64, align 64
  %at0 = getelementptr i64, ptr %args, i64 0
  %arg0 = load ptr, ptr %at0, align 8
  %at1 = getelementptr i64, ptr %args, i64 1
  %arg1 = load ptr, ptr %at1, align 8
  %at2 = getelementptr i64, ptr %args, i64 2
  %arg2 = load float, ptr %at2, align 8
  %at3 = getelementptr i64, ptr %args, i64 3
  %arg3 = load i32, ptr %at3, align 8
  %at4 = getelementptr i64, ptr %args, i64 4
  %extent0 = load i64, ptr %at4, align 8
  %at5 = getelementptr i64, ptr %args, i64 5
  %streams = load i64, ptr %at5, align 8
  %number_cell = alloca i64
  store i64 %first, ptr %number_cell
  %group_cell0 = alloca i64
  store i64 %first, ptr %group_cell0
  br label %group_loop
group_loop:
  %number = load i64, ptr %number_cell
  %more = icmp ult i64 %number, %end
  br i1 %more, label %group_body, label %exit
group_body:
  %group0 = load i64, ptr %group_cell0
  %v1 = trunc i64 %group0 to i32
  %v2 = mul i32 %v1, 256
  store i64 0, ptr %cell3
  br label %piece4
piece4:
  %v6 = load i64, ptr %cell3
  %v7 = mul i64 %v6, 32
  %v8 = trunc nuw i64 %v7 to i32
  %v9 = insertelement <32 x i32> poison, i32 %v8, i64 0
  %v10 = shufflevector <32 x i32> %v9, <32 x i32> poison, <32 x i32> zeroinitializer
  %v11 = add <32 x i32> %v10, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v12 = insertelement <32 x i32> poison, i32 %v2, i64 0
  %v13 = shufflevector <32 x i32> %v12, <32 x i32> poison, <32 x i32> zeroinitializer
  %v14 = add <32 x i32> %v13, %v11
  %v15 = insertelement <32 x i32> poison, i32 %arg3, i64 0
  %v16 = shufflevector <32 x i32> %v15, <32 x i32> poison, <32 x i32> zeroinitializer
  %v17 = icmp slt <32 x i32> %v14, %v16
  %v21 = mul i64 %v6, 32
  %v22 = trunc nuw i64 %v21 to i32
  %v23 = add i32 %v2, %v22
  %v24 = sext i32 %v23 to i64
  %v25 = sext i32 %arg3 to i64
  %v26 = add i64 %v24, 31
  %v27 = icmp slt i64 %v26, %v25
  br i1 %v27, label %full19, label %partial20
full19:
  %v28 = sext i32 %v23 to i64
  %v29 = getelementptr i16, ptr %arg0, i64 %v28
  %v30 = load <32 x i16>, ptr %v29, align 2
  %v31 = zext <32 x i16> %v30 to <32 x i32>
  %v32 = shl <32 x i32> %v31, splat (i32 16)
  %v33 = bitcast <32 x i32> %v32 to <32 x float>
  %v34 = fcmp oeq <32 x float> %v33, splat (float 0xFFF0000000000000)
  %v35 = call <32 x float> @llvm.fabs.v32f32(<32 x float> %v33)
  %v36 = fneg <32 x float> %v35
  %v37 = fcmp ugt <32 x float> %v36, splat (float 0xC05A000000000000)
  %v38 = select <32 x i1> %v37, <32 x float> %v36, <32 x float> splat (float 0xC05A000000000000)
  %v39 = fcmp ult <32 x float> %v38, splat (float 0x4056400000000000)
  %v40 = select <32 x i1> %v39, <32 x float> %v38, <32 x float> splat (float 0x4056400000000000)
  %v41 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v40, <32 x float> splat (float 0x3FF7154760000000), <32 x float> splat (float 0x4168000000000000))
  %v42 = fsub <32 x float> %v41, splat (float 0x4168000000000000)
  %v43 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v42, <32 x float> splat (float 0xBFE62E4000000000), <32 x float> %v40)
  %v44 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v42, <32 x float> splat (float 0xBEB7F7D1C0000000), <32 x float> %v43)
  %v45 = bitcast <32 x float> %v41 to <32 x i32>
  %v46 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F56DC72E0000000), <32 x float> %v44, <32 x float> splat (float 0x3F81239040000000))
  %v47 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v46, <32 x float> %v44, <32 x float> splat (float 0x3FA5554860000000))
  %v48 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v47, <32 x float> %v44, <32 x float> splat (float 0x3FC5554940000000))
  %v49 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v48, <32 x float> %v44, <32 x float> splat (float 0x3FE0000000000000))
  %v50 = fmul <32 x float> %v44, %v44
  %v51 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v49, <32 x float> %v50, <32 x float> %v44)
  %v52 = fadd <32 x float> %v51, splat (float 0x3FF0000000000000)
  %v53 = ashr <32 x i32> %v45, splat (i32 1)
  %v54 = shl <32 x i32> %v53, splat (i32 23)
  %v55 = add <32 x i32> %v54, splat (i32 1065353216)
  %v56 = bitcast <32 x i32> %v55 to <32 x float>
  %v57 = fmul <32 x float> %v52, %v56
  %v58 = sub <32 x i32> %v45, %v53
  %v59 = shl <32 x i32> %v58, splat (i32 23)
  %v60 = add <32 x i32> %v59, splat (i32 1065353216)
  %v61 = bitcast <32 x i32> %v60 to <32 x float>
  %v62 = fmul <32 x float> %v57, %v61
  %v63 = fcmp olt <32 x float> %v33, splat (float 0x0000000000000000)
  %v64 = select <32 x i1> %v63, <32 x float> %v62, <32 x float> splat (float 0x3FF0000000000000)
  %v65 = fadd <32 x float> %v62, splat (float 0x3FF0000000000000)
  %v66 = fdiv <32 x float> %v64, %v65
  %v67 = fmul <32 x float> %v33, %v66
  %v68 = select <32 x i1> %v34, <32 x float> splat (float 0x8000000000000000), <32 x float> %v67
  %v69 = bitcast <32 x float> %v68 to <32 x i32>
  %v70 = lshr <32 x i32> %v69, splat (i32 16)
  %v71 = and <32 x i32> %v70, splat (i32 1)
  %v72 = add <32 x i32> %v71, splat (i32 32767)
  %v73 = add <32 x i32> %v69, %v72
  %v74 = lshr <32 x i32> %v73, splat (i32 16)
  %v75 = fcmp uno <32 x float> %v68, %v68
  %v76 = select <32 x i1> %v75, <32 x i32> splat (i32 32704), <32 x i32> %v74
  %v77 = trunc <32 x i32> %v76 to <32 x i16>
  %v78 = sext i32 %v23 to i64
  %v79 = getelementptr i16, ptr %arg1, i64 %v78
  %v80 = ptrtoint ptr %v79 to i64
  %v81 = icmp ne i64 %streams, 0
  %v83 = and i64 %v80, 63
  %v84 = icmp eq i64 %v83, 0
  %v87 = and i1 %v81, %v84
  br i1 %v87, label %past85, label %through86
past85:
  store <32 x i16> %v77, ptr %v79, align 64, !nontemporal !0
  br label %stored82
through86:
  %v88 = and i64 %v80, 15
  %v89 = icmp eq i64 %v88, 0
  %v92 = and i1 %v81, %v89
  br i1 %v92, label %past90, label %through91
past90:
  store <32 x i16> %v77, ptr %v79, align 16, !nontemporal !0
  br label %stored82
through91:
  store <32 x i16> %v77, ptr %v79, align 2
  br label %stored82
stored82:
  br label %end18
partial20:
  %v95 = bitcast <32 x i1> %v17 to i32
  %v96 = icmp ne i32 %v95, 0
  br i1 %v96, label %some93, label %none94
some93:
  %v97 = sext i32 %v23 to i64
  %v98 = getelementptr i16, ptr %arg0, i64 %v97
  %v99 = call <32 x i16> @llvm.masked.load.v32i16.p0(ptr align 2 %v98, <32 x i1> %v17, <32 x i16> zeroinitializer)
  %v100 = zext <32 x i16> %v99 to <32 x i32>
  %v101 = shl <32 x i32> %v100, splat (i32 16)
  %v102 = bitcast <32 x i32> %v101 to <32 x float>
  %v103 = fcmp oeq <32 x float> %v102, splat (float 0xFFF0000000000000)
  %v104 = call <32 x float> @llvm.fabs.v32f32(<32 x float> %v102)
  %v105 = fneg <32 x float> %v104
  %v106 = fcmp ugt <32 x float> %v105, splat (float 0xC05A000000000000)
  %v107 = select <32 x i1> %v106, <32 x float> %v105, <32 x float> splat (float 0xC05A000000000000)
  %v108 = fcmp ult <32 x float> %v107, splat (float 0x4056400000000000)
  %v109 = select <32 x i1> %v108, <32 x float> %v107, <32 x float> splat (float 0x4056400000000000)
  %v110 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v109, <32 x float> splat (float 0x3FF7154760000000), <32 x float> splat (float 0x4168000000000000))
  %v111 = fsub <32 x float> %v110, splat (float 0x4168000000000000)
  %v112 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v111, <32 x float> splat (float 0xBFE62E4000000000), <32 x float> %v109)
  %v113 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v111, <32 x float> splat (float 0xBEB7F7D1C0000000), <32 x float> %v112)
  %v114 = bitcast <32 x float> %v110 to <32 x i32>
  %v115 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F56DC72E0000000), <32 x float> %v113, <32 x float> splat (float 0x3F81239040000000))
  %v116 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v115, <32 x float> %v113, <32 x float> splat (float 0x3FA5554860000000))
  %v117 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v116, <32 x float> %v113, <32 x float> splat (float 0x3FC5554940000000))
  %v118 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v117, <32 x float> %v113, <32 x float> splat (float 0x3FE0000000000000))
  %v119 = fmul <32 x float> %v113, %v113
  %v120 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v118, <32 x float> %v119, <32 x float> %v113)
  %v121 = fadd <32 x float> %v120, splat (float 0x3FF0000000000000)
  %v122 = ashr <32 x i32> %v114, splat (i32 1)
  %v123 = shl <32 x i32> %v122, splat (i32 23)
  %v124 = add <32 x i32> %v123, splat (i32 1065353216)
  %v125 = bitcast <32 x i32> %v124 to <32 x float>
  %v126 = fmul <32 x float> %v121, %v125
  %v127 = sub <32 x i32> %v114, %v122
  %v128 = shl <32 x i32> %v127, splat (i32 23)
  %v129 = add <32 x i32> %v128, splat (i32 1065353216)
  %v130 = bitcast <32 x i32> %v129 to <32 x float>
  %v131 = fmul <32 x float> %v126, %v130
  %v132 = fcmp olt <32 x float> %v102, splat (float 0x0000000000000000)
  %v133 = select <32 x i1> %v132, <32 x float> %v131, <32 x float> splat (float 0x3FF0000000000000)
  %v134 = fadd <32 x float> %v131, splat (float 0x3FF0000000000000)
  %v135 = fdiv <32 x float> %v133, %v134
  %v136 = fmul <32 x float> %v102, %v135
  %v137 = select <32 x i1> %v103, <32 x float> splat (float 0x8000000000000000), <32 x float> %v136
  %v138 = bitcast <32 x float> %v137 to <32 x i32>
  %v139 = lshr <32 x i32> %v138, splat (i32 16)
  %v140 = and <32 x i32> %v139, splat (i32 1)
  %v141 = add <32 x i32> %v140, splat (i32 32767)
  %v142 = add <32 x i32> %v138, %v141
  %v143 = lshr <32 x i32> %v142, splat (i32 16)
  %v144 = fcmp uno <32 x float> %v137, %v137
  %v145 = select <32 x i1> %v144, <32 x i32> splat (i32 32704), <32 x i32> %v143
  %v146 = trunc <32 x i32> %v145 to <32 x i16>
  %v147 = sext i32 %v23 to i64
  %v148 = getelementptr i16, ptr %arg1, i64 %v147
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v146, ptr align 2 %v148, <32 x i1> %v17)
  br label %none94
none94:
  br label %end18
end18:
  %v149 = add nuw i64 %v6, 1
  store i64 %v149, ptr %cell3
  %v150 = icmp ult i64 %v149, 8
  br i1 %v150, label %piece4, label %piece_end5
piece_end5:
  %next_number = add i64 %number, 1
  store i64 %next_number, ptr %number_cell
  %step0 = add i64 %group0, 1
  store i64 %step0, ptr %group_cell0
  br label %group_loop, !llvm.loop !1
exit:
  %streamed = icmp ne i64 %streams, 0
  br i1 %streamed, label %fence, label %return
fence:
  call void @llvm.x86.sse.sfence()
  br label %return
return:
  ret void
}
declare <32 x float> @llvm.fabs.v32f32(<32 x float>)
declare <32 x float> @llvm.fma.v32f32(<32 x float>, <32 x float>, <32 x float>)
declare <32 x i16> @llvm.masked.load.v32i16.p0(ptr, <32 x i1>, <32 x i16>)
declare void @llvm.masked.store.v32i16.p0(<32 x i16>, ptr, <32 x i1>)
declare void @llvm.x86.sse.sfence()
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
