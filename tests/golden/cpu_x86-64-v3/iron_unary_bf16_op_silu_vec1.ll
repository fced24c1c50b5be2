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
  %v34 = fcmp ugt <32 x float> %v33, splat (float 0xC05A000000000000)
  %v35 = select <32 x i1> %v34, <32 x float> %v33, <32 x float> splat (float 0xC05A000000000000)
  %v36 = call <32 x float> @llvm.fabs.v32f32(<32 x float> %v33)
  %v37 = fneg <32 x float> %v36
  %v38 = fcmp ugt <32 x float> %v37, splat (float 0xC05A000000000000)
  %v39 = select <32 x i1> %v38, <32 x float> %v37, <32 x float> splat (float 0xC05A000000000000)
  %v40 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v39, <32 x float> splat (float 0x3FF7154760000000), <32 x float> splat (float 0x4168000000000000))
  %v41 = fsub <32 x float> %v40, splat (float 0x4168000000000000)
  %v42 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v41, <32 x float> splat (float 0xBFE62E4000000000), <32 x float> %v39)
  %v43 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v41, <32 x float> splat (float 0xBEB7F7D1C0000000), <32 x float> %v42)
  %v44 = bitcast <32 x float> %v40 to <32 x i32>
  %v45 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F56DC72E0000000), <32 x float> %v43, <32 x float> splat (float 0x3F81239040000000))
  %v46 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v45, <32 x float> %v43, <32 x float> splat (float 0x3FA5554860000000))
  %v47 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v46, <32 x float> %v43, <32 x float> splat (float 0x3FC5554940000000))
  %v48 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v47, <32 x float> %v43, <32 x float> splat (float 0x3FE0000000000000))
  %v49 = fmul <32 x float> %v43, %v43
  %v50 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v48, <32 x float> %v49, <32 x float> %v43)
  %v51 = fadd <32 x float> %v50, splat (float 0x3FF0000000000000)
  %v52 = shl <32 x i32> %v44, splat (i32 23)
  %v53 = add <32 x i32> %v52, splat (i32 1266679808)
  %v54 = bitcast <32 x i32> %v53 to <32 x float>
  %v55 = fmul <32 x float> %v51, %v54
  %v56 = fmul <32 x float> %v55, splat (float 0x3E70000000000000)
  %v57 = fcmp olt <32 x float> %v33, splat (float 0x0000000000000000)
  %v58 = select <32 x i1> %v57, <32 x float> %v56, <32 x float> splat (float 0x3FF0000000000000)
  %v59 = fadd <32 x float> %v56, splat (float 0x3FF0000000000000)
  %v60 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v59
  %v61 = fmul <32 x float> %v58, %v60
  %v62 = fmul <32 x float> %v35, %v61
  %v63 = bitcast <32 x float> %v62 to <32 x i32>
  %v64 = lshr <32 x i32> %v63, splat (i32 16)
  %v65 = and <32 x i32> %v64, splat (i32 1)
  %v66 = add <32 x i32> %v65, splat (i32 32767)
  %v67 = add <32 x i32> %v63, %v66
  %v68 = lshr <32 x i32> %v67, splat (i32 16)
  %v69 = fcmp uno <32 x float> %v62, %v62
  %v70 = select <32 x i1> %v69, <32 x i32> splat (i32 32704), <32 x i32> %v68
  %v71 = trunc <32 x i32> %v70 to <32 x i16>
  %v72 = sext i32 %v23 to i64
  %v73 = getelementptr i16, ptr %arg1, i64 %v72
  %v74 = ptrtoint ptr %v73 to i64
  %v75 = icmp ne i64 %streams, 0
  %v77 = and i64 %v74, 63
  %v78 = icmp eq i64 %v77, 0
  %v81 = and i1 %v75, %v78
  br i1 %v81, label %past79, label %through80
past79:
  store <32 x i16> %v71, ptr %v73, align 64, !nontemporal !0
  br label %stored76
through80:
  %v82 = and i64 %v74, 15
  %v83 = icmp eq i64 %v82, 0
  %v86 = and i1 %v75, %v83
  br i1 %v86, label %past84, label %through85
past84:
  store <32 x i16> %v71, ptr %v73, align 16, !nontemporal !0
  br label %stored76
through85:
  store <32 x i16> %v71, ptr %v73, align 2
  br label %stored76
stored76:
  br label %end18
partial20:
  %v89 = bitcast <32 x i1> %v17 to i32
  %v90 = icmp ne i32 %v89, 0
  br i1 %v90, label %some87, label %none88
some87:
  %v91 = sext i32 %v23 to i64
  %v92 = getelementptr i16, ptr %arg0, i64 %v91
  %v93 = call <32 x i16> @llvm.masked.load.v32i16.p0(ptr align 2 %v92, <32 x i1> %v17, <32 x i16> zeroinitializer)
  %v94 = zext <32 x i16> %v93 to <32 x i32>
  %v95 = shl <32 x i32> %v94, splat (i32 16)
  %v96 = bitcast <32 x i32> %v95 to <32 x float>
  %v97 = fcmp ugt <32 x float> %v96, splat (float 0xC05A000000000000)
  %v98 = select <32 x i1> %v97, <32 x float> %v96, <32 x float> splat (float 0xC05A000000000000)
  %v99 = call <32 x float> @llvm.fabs.v32f32(<32 x float> %v96)
  %v100 = fneg <32 x float> %v99
  %v101 = fcmp ugt <32 x float> %v100, splat (float 0xC05A000000000000)
  %v102 = select <32 x i1> %v101, <32 x float> %v100, <32 x float> splat (float 0xC05A000000000000)
  %v103 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v102, <32 x float> splat (float 0x3FF7154760000000), <32 x float> splat (float 0x4168000000000000))
  %v104 = fsub <32 x float> %v103, splat (float 0x4168000000000000)
  %v105 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v104, <32 x float> splat (float 0xBFE62E4000000000), <32 x float> %v102)
  %v106 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v104, <32 x float> splat (float 0xBEB7F7D1C0000000), <32 x float> %v105)
  %v107 = bitcast <32 x float> %v103 to <32 x i32>
  %v108 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F56DC72E0000000), <32 x float> %v106, <32 x float> splat (float 0x3F81239040000000))
  %v109 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v108, <32 x float> %v106, <32 x float> splat (float 0x3FA5554860000000))
  %v110 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v109, <32 x float> %v106, <32 x float> splat (float 0x3FC5554940000000))
  %v111 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v110, <32 x float> %v106, <32 x float> splat (float 0x3FE0000000000000))
  %v112 = fmul <32 x float> %v106, %v106
  %v113 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v111, <32 x float> %v112, <32 x float> %v106)
  %v114 = fadd <32 x float> %v113, splat (float 0x3FF0000000000000)
  %v115 = shl <32 x i32> %v107, splat (i32 23)
  %v116 = add <32 x i32> %v115, splat (i32 1266679808)
  %v117 = bitcast <32 x i32> %v116 to <32 x float>
  %v118 = fmul <32 x float> %v114, %v117
  %v119 = fmul <32 x float> %v118, splat (float 0x3E70000000000000)
  %v120 = fcmp olt <32 x float> %v96, splat (float 0x0000000000000000)
  %v121 = select <32 x i1> %v120, <32 x float> %v119, <32 x float> splat (float 0x3FF0000000000000)
  %v122 = fadd <32 x float> %v119, splat (float 0x3FF0000000000000)
  %v123 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v122
  %v124 = fmul <32 x float> %v121, %v123
  %v125 = fmul <32 x float> %v98, %v124
  %v126 = bitcast <32 x float> %v125 to <32 x i32>
  %v127 = lshr <32 x i32> %v126, splat (i32 16)
  %v128 = and <32 x i32> %v127, splat (i32 1)
  %v129 = add <32 x i32> %v128, splat (i32 32767)
  %v130 = add <32 x i32> %v126, %v129
  %v131 = lshr <32 x i32> %v130, splat (i32 16)
  %v132 = fcmp uno <32 x float> %v125, %v125
  %v133 = select <32 x i1> %v132, <32 x i32> splat (i32 32704), <32 x i32> %v131
  %v134 = trunc <32 x i32> %v133 to <32 x i16>
  %v135 = sext i32 %v23 to i64
  %v136 = getelementptr i16, ptr %arg1, i64 %v135
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v134, ptr align 2 %v136, <32 x i1> %v17)
  br label %none88
none88:
  br label %end18
end18:
  %v137 = add nuw i64 %v6, 1
  store i64 %v137, ptr %cell3
  %v138 = icmp ult i64 %v137, 8
  br i1 %v138, label %piece4, label %piece_end5
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
